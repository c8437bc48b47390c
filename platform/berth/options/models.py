"""What an operator set otherwise than ``registry`` has it."""

from __future__ import annotations

from django.db import models


class OptionValue(models.Model):
    """An override. Without a row the default holds."""

    key = models.CharField(max_length=64, primary_key=True)
    value = models.JSONField()
    changed_at = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=254)
