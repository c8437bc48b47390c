"""What several apps need of the database: leases, and the version gateways poll."""

from __future__ import annotations

from django.db import models


class Lease(models.Model):
    """One row a name: who holds it, until when. Taken by ``core.leases``; keeps beat's work to one at a time."""

    name = models.CharField(max_length=64, primary_key=True)
    holder = models.CharField(max_length=64, blank=True)
    expires_at = models.DateTimeField(null=True)


class ConfigVersion(models.Model):
    """One row (id 1). Raised after every commit that changes what a gateway's snapshot holds."""

    version = models.BigIntegerField(default=0)
