"""Indexes for the list of requests, slowest first; built while requests go on being booked."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("metering", "0003_fill_minutes")]

    operations = [
        AddIndexConcurrently(
            model_name="usagerecord",
            index=models.Index(
                models.F("ttft_us").desc(nulls_last=True), models.F("request_id").desc(), name="usage_slowest"
            ),
        ),
        AddIndexConcurrently(
            model_name="usagerecord",
            index=models.Index(
                models.F("tenant_id"),
                models.F("ttft_us").desc(nulls_last=True),
                models.F("request_id").desc(),
                name="usage_slowest_tenant",
            ),
        ),
    ]
