"""How often another replica went on with the answer."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metering", "0007_counted_at")]

    operations = [
        migrations.AddField(
            model_name="usagerecord",
            name="resumes",
            field=models.PositiveSmallIntegerField(null=True),
        ),
    ]
