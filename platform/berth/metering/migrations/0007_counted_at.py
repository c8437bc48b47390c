"""The index of the reconciliation; built while requests go on being booked."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("metering", "0006_doors_counts")]

    operations = [
        AddIndexConcurrently(
            model_name="usagerecord",
            index=models.Index(
                fields=["counted_at"], name="usage_counted", condition=models.Q(("counted_as", ""), _negated=True)
            ),
        ),
    ]
