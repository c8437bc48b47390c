"""Who changed what."""

from __future__ import annotations

from django.db import models

from berth.core.ids import IdFactory
from berth.core.scoping import TenantOwned


class AuditEvent(TenantOwned):
    """One change. Append only. ``before`` and ``after`` hold the changed fields, secrets masked.

    ``tenant_id`` is empty for what belongs to the platform.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("evt"), editable=False)
    tenant_id = models.CharField(max_length=32, blank=True)
    actor = models.CharField(max_length=254, help_text="a person's e-mail, or the part of the system that acted")
    action = models.CharField(max_length=64)
    object_type = models.CharField(max_length=32)
    object_id = models.CharField(max_length=40)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    request_id = models.CharField(max_length=40, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(TenantOwned.Meta):
        indexes = [models.Index(fields=["tenant_id", "-created_at"])]
