"""Models that can be deployed: where they came from, what they need, their files by digest."""

from __future__ import annotations

from django.db import models

from berth.core.ids import IdFactory


class ModelState(models.TextChoices):
    REGISTERING = "registering"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Phase(models.TextChoices):
    """Where a registration is. ``Model.bytes_done`` and ``bytes_total`` are of the phase."""

    QUEUED = "queued"
    FETCHING = "fetching", "downloading"
    READING = "reading", "reading headers"
    CONVERTING = "converting"
    COPYING = "copying"
    HASHING = "hashing", "checking"
    DONE = "done"


class SourceKind(models.TextChoices):
    PACKAGE = "package", "a file inside a Python package"
    DIRECTORY = "directory", "a local directory of safetensors"
    GGUF = "gguf", "a local GGUF file"
    HUB = "hub", "a repository of a model hub"


class Model(models.Model):
    """One registered model: the platform's, for everyone, or a tenant's own.

    Its files lie under BERTH_HOME/models/DIGEST, immutable.

    ``digest`` is the SHA-256 over the sorted (name, SHA-256) pairs in ``files``. Byte figures are predictions from
    the headers; a refused registration keeps its row, state failed, with the reason, and no file.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("mdl"), editable=False)
    tenant = models.ForeignKey("tenants.Tenant", null=True, on_delete=models.PROTECT, related_name="+")
    name = models.SlugField(max_length=80)
    source_kind = models.CharField(max_length=16, choices=SourceKind.choices)
    source = models.CharField(
        max_length=500,
        help_text="package:NAME==VERSION/FILE, a path below an allowed root, or OWNER/NAME[@REVISION][:FILE.gguf]",
    )
    state = models.CharField(max_length=16, choices=ModelState.choices, default=ModelState.REGISTERING)
    reason = models.TextField(blank=True)
    progress = models.FloatField(default=0.0)
    phase = models.CharField(max_length=16, choices=Phase.choices, default=Phase.QUEUED, db_default="done")
    bytes_done = models.BigIntegerField(default=0, db_default=0)
    bytes_total = models.BigIntegerField(default=0, db_default=0)
    bytes_per_s = models.FloatField(default=0.0, db_default=0.0)
    started_at = models.DateTimeField(null=True)
    requested_by = models.CharField(max_length=254, blank=True, default="", db_default="")
    licence = models.CharField(max_length=80, blank=True)
    architecture = models.CharField(max_length=80, blank=True)
    source_format = models.CharField(max_length=40, blank=True, help_text="e.g. GGUF Q4_1, safetensors bf16")
    parameters = models.BigIntegerField(default=0)
    context_length = models.PositiveIntegerField(default=0)
    weights_bytes = models.BigIntegerField(default=0)
    kv_bytes_per_token = models.BigIntegerField(default=0)
    workspace_bytes = models.BigIntegerField(default=0)
    default_sampling = models.JSONField(default=dict, blank=True)
    digest = models.CharField(max_length=64, blank=True, db_index=True)
    files = models.JSONField(default=dict, blank=True, help_text="file name -> SHA-256")
    size_bytes = models.BigIntegerField(default=0)
    header = models.JSONField(default=dict, blank=True, help_text="gpuruntime.modelinfo.ModelInfo of the files")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=models.Q(tenant=None), name="one_model_of_the_platform_a_name"
            ),
            models.UniqueConstraint(fields=["tenant", "name"], name="one_model_of_a_tenant_a_name"),
        ]
