"""REST: the platform's settings, for operators; two of them for everyone."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.authentication import Session
from berth.api.views import BerthViewSet, IsOperator
from berth.core.errors import NotFound
from berth.options import selectors, services
from berth.options.models import OptionValue
from berth.options.registry import REGISTRY, Option
from berth.options.serializers import PublicSettingsSerializer, SettingChangeSerializer, SettingSerializer


class SettingView(BerthViewSet[OptionValue]):
    """Every option there is, in the registry's order; one that nobody changed has its default."""

    queryset = OptionValue.objects.none()
    serializer_class = SettingSerializer
    lookup_field = "key"
    lookup_value_regex = "[a-z0-9_]{1,64}"
    pagination_class = None
    filter_backends = []
    authentication_classes = [Session]
    permission_classes = [IsAuthenticated, IsOperator]

    @extend_schema(responses=SettingSerializer(many=True))
    def list(self, request: Request) -> Response:
        rows = selectors.overrides()
        return Response([_shown(option, rows.get(option.key)) for option in REGISTRY.values()])

    def retrieve(self, request: Request, key: str) -> Response:
        return self._answer(_known(key))

    @extend_schema(request=SettingChangeSerializer, responses=SettingSerializer)
    def partial_update(self, request: Request, key: str) -> Response:
        """The range is in the option; 400 names it. Null takes the default again."""
        option = _known(key)
        if self.asked_tag:
            services.lock_option(key)
            self.check_tag(_row(option))
        services.set_option(key=key, value=self.valid(SettingChangeSerializer)["value"], actor=self.actor)
        return self._answer(option)

    @extend_schema(operation_id="settings_public", responses=PublicSettingsSerializer)
    @action(detail=False, methods=["get"], permission_classes=[AllowAny])
    def public(self, request: Request) -> Response:
        """What a page needs before anyone has signed in."""
        return Response({option.key: selectors.get(option.key) for option in REGISTRY.values() if option.public})

    def get_queryset(self) -> Any:
        return OptionValue.objects.all()

    def _answer(self, option: Option) -> Response:
        row = _row(option)
        stored = row if row.changed_at else None
        return Response(_shown(option, stored), headers={"ETag": self.etag_of(row)})


def _known(key: str) -> Option:
    if key not in REGISTRY:
        raise NotFound("No such setting")
    return REGISTRY[key]


def _row(option: Option) -> OptionValue:
    return OptionValue.objects.filter(key=option.key).first() or OptionValue(key=option.key, value=option.default)


def _shown(option: Option, row: OptionValue | None) -> dict[str, Any]:
    known = {name: value for name, value in asdict(option).items() if name != "public"}
    changed = {"changed_at": row.changed_at if row else None, "changed_by": row.changed_by if row else None}
    return SettingSerializer({**known, "value": row.value if row else option.default, **changed}).data
