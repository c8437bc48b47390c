"""How the fleet was packed anew, or why it was left alone: every re-plan with what it was made from."""

from __future__ import annotations

from django.db import models

from berth.core.ids import IdFactory


class PlanState(models.TextChoices):
    RUNNING = "running", "its moves are under way"
    DONE = "done", "everything it asked for is so"
    ABANDONED = "abandoned", "what it asked for could not be done; the next plan begins from what is"
    IDLE = "idle", "it asked for nothing"


class Plan(models.Model):
    """``objective``: GPUs in use and, in GPUs, what is not served; no plan is below ``bound``, ``gap`` is over it.

    ``candidates``: the ways that were compared, with why not. ``changes``: who goes where and why; ``waves``: in which
    order, ``wave`` of them done. ``pending``: what found no place. ``before``, ``after``: figures of the fleet. Names
    are copied, since what they name may be gone when somebody asks.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("pln"), editable=False)
    at = models.DateTimeField()
    state = models.CharField(max_length=16, choices=PlanState.choices)
    kind = models.CharField(max_length=16, help_text="nothing, insert, compact or exact")
    why = models.TextField()
    inputs = models.JSONField(default=dict)
    objective = models.FloatField()
    bound = models.FloatField()
    gap = models.FloatField()
    seconds = models.FloatField()
    moves = models.PositiveIntegerField(default=0)
    candidates = models.JSONField(default=list)
    changes = models.JSONField(default=list)
    waves = models.JSONField(default=list)
    wave = models.PositiveIntegerField(default=0)
    wave_since = models.DateTimeField(null=True)
    pending = models.JSONField(default=list)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    last_at = models.DateTimeField(help_text="when it was last found the same")
    count = models.PositiveIntegerField(default=1)
    ended_at = models.DateTimeField(null=True)
    ended_why = models.TextField(blank=True)

    class Meta:
        indexes = [models.Index(fields=["-at"]), models.Index(fields=["state"])]


class SlotMeasurement(models.Model):
    """What the newest ``runs`` of replicas of one model gave and held in one kind of slot (``plans.measured``)."""

    digest = models.CharField(max_length=64)
    dtype = models.CharField(max_length=8)
    kv_dtype = models.CharField(max_length=8)
    board = models.CharField(max_length=40)
    kind = models.CharField(max_length=16)
    profile = models.CharField(max_length=32)
    runs = models.JSONField(default=list)
    at = models.DateTimeField(help_text="when a run was last noted")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["digest", "dtype", "kv_dtype", "board", "kind", "profile"], name="one_row_a_kind_of_slot"
            )
        ]
