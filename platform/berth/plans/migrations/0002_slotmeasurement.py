from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('plans', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='SlotMeasurement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64)),
                ('dtype', models.CharField(max_length=8)),
                ('kv_dtype', models.CharField(max_length=8)),
                ('board', models.CharField(max_length=40)),
                ('kind', models.CharField(max_length=16)),
                ('profile', models.CharField(max_length=32)),
                ('runs', models.JSONField(default=list)),
                ('at', models.DateTimeField(help_text='when a run was last noted')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('digest', 'dtype', 'kv_dtype', 'board', 'kind', 'profile'), name='one_row_a_kind_of_slot')],
            },
        ),
    ]
