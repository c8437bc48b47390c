"""REST: who changed what. For operators, and for a tenant's owners and admins."""

from __future__ import annotations

from typing import Any

import django_filters
from rest_framework import mixins, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import TenantFilter, TenantViewSet
from berth.audit import selectors
from berth.audit.models import AuditEvent
from berth.tenants.models import Role


class AuditEventSerializer(serializers.ModelSerializer[AuditEvent]):
    tenant = serializers.CharField(source="tenant_id")
    before = serializers.DictField(allow_null=True)
    after = serializers.DictField(allow_null=True)
    object_name = serializers.CharField(
        help_text="a person's e-mail, a contract's deployment; empty for others, and for what is gone"
    )

    class Meta:
        model = AuditEvent
        fields = [
            "id", "tenant", "actor", "action", "object_type", "object_id", "object_name", "before", "after",
            "request_id", "created_at",
        ]  # fmt: skip
        read_only_fields = fields


class AuditFilter(TenantFilter):
    object = django_filters.CharFilter(field_name="object_id")
    action = django_filters.CharFilter()
    actor = django_filters.CharFilter()


AuditFilter.base_filters["from"] = django_filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
AuditFilter.base_filters["to"] = django_filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt")


class AuditView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[AuditEvent]):
    queryset = AuditEvent.objects.none()
    serializer_class = AuditEventSerializer
    search_fields = ("actor", "action", "object_id", "request_id")
    ordering_fields = ("created_at", "actor", "action")
    filterset_class = AuditFilter
    readers = Role.ADMIN

    def get_queryset(self) -> Any:
        return selectors.events(self.scope)

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset)
        selectors.annotate_names(page or [])
        return page

    def retrieve(self, request: Request, id: str) -> Response:
        event = self.get_object()
        selectors.annotate_names([event])
        return Response(AuditEventSerializer(event).data)
