"""Each minute the fleet's GPUs are packed anew; what the plan moves is carried out by the ticks between.

A plan is made from what is, stored with all that led to it, and gone through wave by wave: killed at any point, the
next tick finds in the rows how far it came. While one is under way no other is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from celery import shared_task
from django.utils import timezone

from berth.core import leases
from berth.deployments.models import Deployment
from berth.options.selectors import get
from berth.plans import world as rows
from berth.plans.fleet import boards_of
from berth.plans.models import Plan, PlanState
from berth.plans.services import advance_plan, end_plan, forget_plans, plan_replicas, store_plan
from scheduler import world
from scheduler.planner.demands import policy_of
from scheduler.planner.execution import Step, advance, held_by, unwanted_by
from scheduler.planner.fleet import fleet_of
from scheduler.planner.plans import counts, plan_fleet, record
from scheduler.planner.standing import besides

# Longer than any plan takes, so that two are never made at once.
LEASE_S = 30.0
# What a plan lets go is still meant this long after it was last found right.
FRESH = timedelta(minutes=5)


@shared_task(name="scheduler.planning.replan")
def replan() -> None:
    with leases.hold("replan", LEASE_S) as mine:
        if mine:
            plan_now(time.time())


@shared_task(name="scheduler.planning.forget")
def forget() -> None:
    forget_plans(before=timezone.now() - timedelta(days=get("decisions_retention_days")))


def plan_now(now: float) -> Plan | None:
    """The plan that was stored; None where there is nothing to plan, or one is under way."""
    last, nodes = newest(), rows.nodes()
    boards = boards_of(nodes)
    if not boards:
        plan_replicas(counts={})
        return None
    if last is not None and last.state == PlanState.RUNNING:
        return None
    replicas = rows.replicas()
    demands = rows.demands_of(rows.deployments(replicas, boards))
    fleet = fleet_of(nodes, replicas, now, rows.cached(), demands)
    rest, policy = besides(fleet, demands), policy_of(demands.values())
    plan = plan_fleet(rest.fleet, rest.demands, now=now, policy=policy)
    whole = replace(plan, seats=(*plan.seats, *rest.standing))
    names = dict(Deployment.objects.for_platform().values_list("id", "name"))
    values = record(whole, fleet, demands, nodes=nodes, names=names, policy=policy)
    return store_plan(values=values, counts=counts(whole, demands), now=datetime.fromtimestamp(now, UTC))


def newest() -> Plan | None:
    """The last one made; while one is under way, that is it."""
    return Plan.objects.order_by("-at", "-id").first()


def wanted(deployments: tuple[world.Deployment, ...], last: Plan | None, now: float) -> world.DesiredWorld:
    """What should be, with what the ``last`` plan means to move and to let go."""
    if last is None:
        return world.DesiredWorld(deployments)
    if last.state == PlanState.RUNNING:
        held = held_by(last.waves, last.wave)
        return world.DesiredWorld(deployments, held=held, unwanted=unwanted_by(last.changes))
    fresh = last.last_at > datetime.fromtimestamp(now, UTC) - FRESH
    return world.DesiredWorld(deployments, unwanted=unwanted_by(last.changes) if fresh else frozenset())


def carry_out(
    plan: Plan | None,
    observed: world.ObservedWorld,
    desired: world.DesiredWorld,
    now: float,
    act: Callable[[world.Action], bool],
) -> Step | None:
    """One step of ``plan``, if it is under way. ``act`` says whether it was done."""
    if plan is None or plan.state != PlanState.RUNNING:
        return None
    since = (plan.wave_since or plan.at).timestamp()
    step = advance(plan.waves, observed, desired, now, done=plan.wave, since=since)
    actions: list[world.Action] = [*step.begin, *step.drop]
    for action in actions:
        act(action)
    at = datetime.fromtimestamp(now, UTC)
    if step.wave != plan.wave:
        advance_plan(plan=plan, wave=step.wave, now=at)
    if step.state != "running":
        end_plan(plan=plan, state=step.state, why=step.why, now=at)
    return step
