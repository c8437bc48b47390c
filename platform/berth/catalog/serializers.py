"""How models look on the wire."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from berth.catalog.header import requirements
from berth.catalog.models import Model, ModelState, SourceKind
from berth.deployments.models import Dtype, Engine, KvDtype
from berth.slas.models import Isolation
from berth.tenants.serializers import TenantRefSerializer


class FormatSerializer(serializers.Serializer[Any]):
    """One way to run it. ``smallest_bytes``: of a replica that takes one request of ``context_length`` tokens."""

    engine = serializers.ChoiceField(choices=Engine.choices)
    dtype = serializers.ChoiceField(choices=Dtype.choices)
    kv_dtype = serializers.ChoiceField(choices=KvDtype.choices)
    weights_bytes = serializers.IntegerField()
    kv_bytes_per_token = serializers.IntegerField()
    workspace_bytes = serializers.IntegerField()
    context_length = serializers.IntegerField()
    smallest_bytes = serializers.IntegerField()


class ModelSerializer(serializers.ModelSerializer[Model]):
    """``tenant`` null: the platform's, for everyone. ``requirements`` is empty until it is ready."""

    tenant = TenantRefSerializer(allow_null=True)
    files = serializers.DictField(child=serializers.CharField(), help_text="file name to SHA-256")
    default_sampling = serializers.DictField(child=serializers.FloatField())
    requirements = serializers.SerializerMethodField()

    class Meta:
        model = Model
        fields = [
            "id", "tenant", "name", "source_kind", "source", "state", "reason", "progress", "phase", "bytes_done",
            "bytes_total", "bytes_per_s", "started_at", "requested_by", "licence", "architecture", "source_format",
            "parameters", "context_length", "weights_bytes", "kv_bytes_per_token", "workspace_bytes", "requirements",
            "default_sampling", "digest", "files", "size_bytes", "created_at", "updated_at",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(FormatSerializer(many=True))
    def get_requirements(self, model: Model) -> Any:
        return requirements(model.header) if model.state == ModelState.READY else []


class ModelCreateSerializer(serializers.Serializer[Model]):
    tenant = serializers.CharField(
        required=False, allow_null=True, max_length=32, help_text="whose own, from the hub; absent: the platform's"
    )
    name = serializers.SlugField(max_length=80)
    source_kind = serializers.ChoiceField(choices=SourceKind.choices)
    source = serializers.CharField(max_length=500)  # type: ignore[assignment]


class FitSettingsSerializer(serializers.Serializer[Any]):
    engine = serializers.ChoiceField(choices=Engine.choices, default=Engine.NATIVE)
    dtype = serializers.ChoiceField(choices=Dtype.choices, default=Dtype.BF16)
    max_model_len = serializers.IntegerField(required=False, allow_null=True, default=None, min_value=16)
    max_num_seqs = serializers.IntegerField(default=32, min_value=1, max_value=1024)
    kv_bytes = serializers.IntegerField(default=256 << 20, min_value=1, max_value=1 << 50)
    kv_dtype = serializers.ChoiceField(choices=KvDtype.choices, default=KvDtype.AUTO)
    replicas = serializers.IntegerField(default=1, min_value=0, max_value=1000)
    tenant = serializers.CharField(
        required=False, allow_null=True, max_length=32, help_text="whose it would be; absent: the platform's"
    )
    service_class = serializers.CharField(
        required=False, allow_null=True, max_length=40, help_text="id or name; its TPOT and isolation decide on slots"
    )
    isolation = serializers.ChoiceField(
        required=False, allow_null=True, choices=Isolation.choices, help_text="in place of the class's"
    )
    guaranteed_tokens_per_s = serializers.FloatField(default=0.0, min_value=0, max_value=1e9)
