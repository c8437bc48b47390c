"""How plans look on the wire. What they hold is written by ``scheduler.planner`` and passed on as it was stored."""

from __future__ import annotations

from typing import Any, get_args

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from berth.plans.models import Plan, PlanState
from scheduler.packing.plans import Kind

KINDS: tuple[str, ...] = get_args(Kind)


class PlanFiguresSerializer(serializers.Serializer[Any]):
    """Of the whole fleet. ``stranded_units``: free ones of GPUs in use that nothing asked for can use; goodput in
    tokens/s; ``fragmentation`` from 0 (none) to 1.
    """

    gpus = serializers.IntegerField()
    gpus_in_use = serializers.IntegerField()
    replicas = serializers.IntegerField()
    stranded_units = serializers.IntegerField()
    fragmentation = serializers.FloatField()
    goodput = serializers.FloatField()
    goodput_wanted = serializers.FloatField()
    short_of_guarantee = serializers.FloatField()


class PlanSlotSerializer(serializers.Serializer[Any]):
    """A way to hold a replica: a type of GPU, an isolation and a profile of that cut."""

    board = serializers.CharField()
    kind = serializers.CharField()
    profile = serializers.CharField()


class PlanSpotSerializer(serializers.Serializer[Any]):
    """Where on which GPU, as it was named then. ``start``: the first of its units in the cut."""

    gpu = serializers.CharField()
    gpu_name = serializers.CharField()
    node = serializers.CharField()
    node_name = serializers.CharField()
    slot = PlanSlotSerializer()
    start = serializers.IntegerField()


class PlanChangeSerializer(serializers.Serializer[Any]):
    """``from`` null: a new replica, which has no name yet; ``to`` null: it is let go."""

    replica = serializers.CharField()
    deployment = serializers.CharField()
    deployment_name = serializers.CharField()
    why = serializers.CharField()
    to = PlanSpotSerializer(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        # ``from`` is a word of Python's.
        return {**super().get_fields(), "from": PlanSpotSerializer(allow_null=True)}


class PlanStartSerializer(serializers.Serializer[Any]):
    replica = serializers.CharField()
    instead_of = serializers.CharField(help_text="the replica that goes once this one is ready")
    deployment = serializers.CharField()
    deployment_name = serializers.CharField()
    why = serializers.CharField()
    burst = serializers.BooleanField()
    to = PlanSpotSerializer()


class PlanStopSerializer(serializers.Serializer[Any]):
    replica = serializers.CharField()


class PlanWaveSerializer(serializers.Serializer[Any]):
    """Moves that happen at once: ``stops`` come when all ``starts`` are ready."""

    starts = PlanStartSerializer(many=True)
    stops = PlanStopSerializer(many=True)


class PlanWaitingSerializer(serializers.Serializer[Any]):
    """What found no place. ``short``: tokens/s that are missing."""

    deployment = serializers.CharField()
    deployment_name = serializers.CharField()
    reason = serializers.CharField()
    short = serializers.FloatField()


class PlanWaySerializer(serializers.Serializer[Any]):
    """One way on. ``net_gpu_s``: GPU-seconds it gains over the horizon, less what its moves cost, with caution.

    ``why_not`` empty: it might have been taken.
    """

    kind = serializers.ChoiceField(choices=KINDS)
    objective = serializers.FloatField()
    gpus = serializers.IntegerField()
    short_of_guarantee = serializers.FloatField()
    moves = serializers.IntegerField()
    gain_gpu_s = serializers.FloatField()
    cost_gpu_s = serializers.FloatField()
    net_gpu_s = serializers.FloatField()
    why_not = serializers.CharField()


class PlanLineSerializer(serializers.ModelSerializer[Plan]):
    """``objective``: GPUs in use and, in GPUs, what is not served; no plan is below ``bound``; ``gap`` is over it.

    ``wave`` of ``waves_total`` are done. ``count``: how often it was found the same, until ``last_at``.
    """

    kind = serializers.ChoiceField(choices=KINDS)
    state = serializers.ChoiceField(choices=PlanState.choices)
    before = serializers.SerializerMethodField()
    after = serializers.SerializerMethodField()
    waves_total = serializers.IntegerField()
    pending_total = serializers.IntegerField()

    class Meta:
        model = Plan
        fields = [
            "id", "at", "state", "kind", "why", "objective", "bound", "gap", "seconds", "moves", "before", "after",
            "waves_total", "wave", "wave_since", "pending_total", "last_at", "count", "ended_at", "ended_why",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(PlanFiguresSerializer)
    def get_before(self, row: Plan) -> Any:
        return row.before

    @extend_schema_field(PlanFiguresSerializer)
    def get_after(self, row: Plan) -> Any:
        return row.after


class PlanSerializer(PlanLineSerializer):
    """One plan with what it was made from. ``inputs``: figures and rules, by name."""

    inputs = serializers.DictField()
    candidates = serializers.SerializerMethodField()
    changes = serializers.SerializerMethodField()
    waves = serializers.SerializerMethodField()
    pending = serializers.SerializerMethodField()

    class Meta(PlanLineSerializer.Meta):
        fields = [*PlanLineSerializer.Meta.fields, "inputs", "candidates", "changes", "waves", "pending"]
        read_only_fields = fields

    @extend_schema_field(PlanWaySerializer(many=True))
    def get_candidates(self, row: Plan) -> Any:
        return row.candidates

    @extend_schema_field(PlanChangeSerializer(many=True))
    def get_changes(self, row: Plan) -> Any:
        return row.changes

    @extend_schema_field(PlanWaveSerializer(many=True))
    def get_waves(self, row: Plan) -> Any:
        return row.waves

    @extend_schema_field(PlanWaitingSerializer(many=True))
    def get_pending(self, row: Plan) -> Any:
        return row.pending
