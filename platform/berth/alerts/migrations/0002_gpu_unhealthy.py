from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0001_initial'),
    ]

    operations = [
        migrations.AlterField(
            model_name='alert',
            name='rule',
            field=models.CharField(choices=[('sla.burn_fast', 'The error budget burns fast'), ('sla.burn_slow', 'The error budget burns steadily'), ('sla.budget_near', 'The error budget is nearly spent'), ('contract.limit_near', "A contract's limit is nearly reached"), ('tenant.quota_near', "A tenant's capacity is nearly used"), ('replica.crash_loop', "A deployment's replicas keep crashing"), ('node.lost', 'A node is silent'), ('gpu.unhealthy', 'A GPU is not healthy')], max_length=32),
        ),
    ]
