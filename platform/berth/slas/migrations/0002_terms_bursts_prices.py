"""Contracts keep the terms they were made with, have bursts and may begin later; classes have prices."""

from decimal import Decimal

import django.db.models.functions.datetime
import django.utils.timezone
from django.db import migrations, models

import berth.slas.models

LIMITS = (
    "base_ms", "free_prompt_tokens", "prefill_tokens_per_s", "tpot_ms", "stretch_tpot_ms", "fluidity_floor",
    "attainment_target", "e2e_ms",
)  # fmt: skip
PRICES = ("price_input", "price_cached", "price_output")


def keep_terms(apps, schema_editor):
    """Classes were never versioned before: the present terms are the best that is known of old contracts."""
    for row in apps.get_model("slas", "ServiceClass").objects.all():
        terms = {name: getattr(row, name) for name in LIMITS}
        terms |= {name: f"{Decimal(getattr(row, name)):.4f}" for name in PRICES}
        apps.get_model("slas", "Contract").related.filter(service_class=row, terms={}).update(terms=terms)


def _price(name):
    return migrations.AddField(model_name="serviceclass", name=name, field=berth.slas.models.price_field())


class Migration(migrations.Migration):
    dependencies = [("slas", "0001_initial")]

    operations = [
        _price("price_input"),
        _price("price_cached"),
        _price("price_output"),
        migrations.AlterField(
            "contract",
            "requests_per_min",
            models.PositiveIntegerField(blank=True, db_column="requests_per_min", null=True),
        ),
        migrations.RenameField("contract", "requests_per_min", "guaranteed_requests_per_min"),
        migrations.AlterField(
            "contract", "tokens_per_min", models.PositiveIntegerField(blank=True, db_column="tokens_per_min", null=True)
        ),
        migrations.RenameField("contract", "tokens_per_min", "guaranteed_tokens_per_min"),
        migrations.AddField(
            "contract",
            "terms",
            models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
        ),
        migrations.AddField("contract", "burst_requests_per_min", models.PositiveIntegerField(db_default=0, default=0)),
        migrations.AddField("contract", "burst_tokens_per_min", models.PositiveIntegerField(db_default=0, default=0)),
        migrations.AddField(
            "contract",
            "replaces",
            models.CharField(
                blank=True, db_default="", default="", help_text="the version before", max_length=32
            ),
        ),
        migrations.AddField(
            "contract",
            "created_at",
            models.DateTimeField(
                db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now
            ),
        ),
        migrations.AlterField(
            "contract", "valid_from", models.DateTimeField(default=django.utils.timezone.now)
        ),
        migrations.RunPython(keep_terms, migrations.RunPython.noop),
    ]
