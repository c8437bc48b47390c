from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0004_node_session'),
    ]

    operations = [
        migrations.AlterField(
            model_name='gpu',
            name='utilisation',
            field=models.FloatField(null=True),
        ),
        migrations.AlterField(
            model_name='gpuminute',
            name='utilisation',
            field=models.FloatField(null=True),
        ),
    ]
