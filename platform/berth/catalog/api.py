"""REST: models, and whether a deployment of one would fit."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import BerthViewSet
from berth.catalog import selectors, services
from berth.catalog.models import Model, SourceKind
from berth.deployments.fit import fit_of
from berth.deployments.models import Dtype, Engine, KvDtype
from berth.deployments.serializers import FitSerializer


class ModelSerializer(serializers.ModelSerializer[Model]):
    files = serializers.DictField(child=serializers.CharField(), help_text="file name to SHA-256")
    default_sampling = serializers.DictField(child=serializers.FloatField())

    class Meta:
        model = Model
        fields = [
            "id", "name", "source_kind", "source", "state", "reason", "progress", "licence", "architecture",
            "source_format", "parameters", "context_length", "weights_bytes", "kv_bytes_per_token", "workspace_bytes",
            "default_sampling", "digest", "files", "size_bytes", "created_at", "updated_at",
        ]  # fmt: skip
        read_only_fields = fields


class ModelCreateSerializer(serializers.Serializer[Model]):
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


class ModelFilter(django_filters.FilterSet):
    state = django_filters.CharFilter()
    name = django_filters.CharFilter()


class ModelView(mixins.ListModelMixin, mixins.RetrieveModelMixin, BerthViewSet[Model]):
    """Platform-wide. Registration and removal are the operator's."""

    queryset = Model.objects.none()
    serializer_class = ModelSerializer
    search_fields = ("name", "architecture", "source", "id")
    ordering_fields = ("name", "state", "parameters", "weights_bytes", "context_length", "size_bytes", "created_at")
    filterset_class = ModelFilter
    operator_actions = frozenset({"create", "destroy"})

    def get_queryset(self) -> Any:
        return selectors.models()

    @extend_schema(request=ModelCreateSerializer, responses={201: ModelSerializer})
    def create(self, request: Request) -> Response:
        """Answers at once with a model in state registering; ``progress``, then ``state`` and ``reason`` say more."""
        model = services.register_model(**self.valid(ModelCreateSerializer), actor=self.actor)
        return Response(ModelSerializer(model).data, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        services.delete_model(model=self.get_object(), actor=self.actor)
        return Response(status=204)

    @extend_schema(operation_id="models_fit", request=FitSettingsSerializer, responses=FitSerializer)
    @action(detail=True, methods=["post"], filterset_class=None)
    def fit(self, request: Request, id: str) -> Response:
        """What replicas of this model would take, and on which devices they would fit now."""
        model = self.get_object()
        return Response(FitSerializer(fit_of(model, **self.valid(FitSettingsSerializer))).data)
