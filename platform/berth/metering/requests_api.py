"""REST: requests, looked for by what became of them, and each explained."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import TenantViewSet
from berth.metering import requests, selectors
from berth.metering.explain import explain, sentence, timeline, verdict_of
from berth.metering.filters import RequestFilter
from berth.metering.models import UsageRecord
from berth.metering.request_serializers import RequestLineSerializer, RequestSerializer
from berth.slas.serializers import terms_of


class RequestView(TenantViewSet[UsageRecord]):
    """The same records as ``usage``, for the person who asks why."""

    queryset = UsageRecord.objects.none()
    serializer_class = RequestLineSerializer
    filterset_class = RequestFilter
    search_fields = ("^request_id",)
    ordering_fields = {
        "arrived_at": "arrived_at", "ttft": "ttft_us", "tpot": "tpot_us", "e2e": "e2e_us", "fluidity": "fluidity",
        "prompt_tokens": "prompt_tokens", "completion_tokens": "completion_tokens", "cost": "cost",
    }  # fmt: skip
    default_ordering = "-arrived_at"
    lookup_field = "request_id"
    lookup_value_regex = r"[A-Za-z0-9_-]{1,40}"

    def get_queryset(self) -> Any:
        return selectors.usage(self.scope)

    @extend_schema(responses=RequestLineSerializer(many=True))
    def list(self, request: Request) -> Response:
        page: Any = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        context = {"names": requests.names_of(page)}
        return self.get_paginated_response(RequestLineSerializer(page, many=True, context=context).data)

    @extend_schema(responses=RequestSerializer)
    def retrieve(self, request: Request, request_id: str) -> Response:
        """Where its time went, against what it was promised, and a sentence that says it."""
        return Response(_explained(self.get_object()))


def _explained(record: UsageRecord) -> Any:
    terms = requests.promised(record)
    replica = requests.replica_of(record) or {}
    others = requests.meanwhile(record) or {}
    shown = {
        "request_id": record.request_id,
        "verdict": verdict_of(record),
        "sentence": sentence(record),
        "clauses": explain(record),
        "timeline": timeline(record),
        "summary": record,
        "promised": None if terms is None else terms_of(terms),
        "where": {
            "replica": record.replica_id,
            "state": replica.get("state"),
            "reason": replica.get("reason"),
            "node": record.node_id,
            "slice": record.slice_id,
            "place": record.place,
        },
        "meanwhile": {
            "running_at_arrival": record.running_at_arrival,
            "queued_at_arrival": record.queued_at_arrival,
            "requests": others.get("requests"),
            "of_tenant": others.get("of_tenant"),
            "new_prompt_tokens": others.get("new_prompt_tokens"),
        },
        "record": record,
    }
    return RequestSerializer(shown, context={"names": requests.names_of([record])}).data
