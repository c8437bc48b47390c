from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0003_slices'),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='session',
            field=models.CharField(blank=True, db_default='', default='', help_text='the connection on which its agent greeted last', max_length=32),
        ),
    ]
