"""``berth deployments``."""

from __future__ import annotations

import time
from typing import Any

import click

from berth.cli import operations
from berth.cli.client import Failed
from berth.cli.terminal import Terminal, field, pass_terminal, when

WAIT_S = 600.0


@click.group("deployments")
def group() -> None:
    """See, create, scale, start and stop deployments."""


@group.command("list")
@click.option("--search", default="", help="Only those whose name has this in it.")
@pass_terminal
def list_(terminal: Terminal, search: str) -> None:
    """Deployments you own or may use."""
    rows = terminal.client.rows(operations.DEPLOYMENTS, {"tenant": terminal.asked_tenant, "search": search})
    columns = [
        ("Name", field("name")),
        ("State", field("state.state")),
        ("Ready", ready),
        ("Model", field("model.name")),
        ("Class", field("service_class.name")),
        ("Tenant", field("tenant.slug")),
        ("Reason", field("state.reason", "")),
    ]
    terminal.table(rows, columns, "There are no deployments. Make one: berth deployments create NAME --model MODEL")


def ready(row: Any) -> str:
    return f"{row['state']['ready']}/{row['state']['wanted']}"


@group.command("show")
@click.argument("name")
@pass_terminal
def show(terminal: Terminal, name: str) -> None:
    """One deployment and its replicas."""
    row = terminal.client.call(operations.DEPLOYMENT, terminal.deployment(name)["id"])
    if terminal.as_json:
        terminal.document(row)
        return
    lines = {
        "Id": field("id")(row),
        "Tenant": field("tenant.slug")(row),
        "State": f"{row['state']['state']}, {ready(row)} ready",
        "Reason": field("state.reason", "")(row),
        "Model": field("model.name")(row),
        "Class": field("service_class.name")(row),
        "Engine": f"{row['engine']}, {row['dtype']} weights, {row['kv_dtype']} KV",
        "Context": field("max_model_len", "the model's own")(row),
        "At once": field("max_num_seqs")(row),
        "Changed": when("updated_at")(row),
    }
    click.echo(row["name"])
    for label, value in lines.items():
        if value:
            click.echo(f"  {label:<8} {value}")
    replicas = terminal.client.rows(operations.REPLICAS, {"deployment": row["id"]}, most=50)
    living = [one for one in replicas if one["state"] not in ("stopped", "failed")]
    columns = [
        ("Replica", field("id")),
        ("State", field("state")),
        ("Node", field("node")),
        ("Reason", field("reason", "")),
    ]
    click.echo()
    terminal.table(living, columns, "No replica runs.")


@group.command("create")
@click.argument("name")
@click.option("--model", required=True, help="A model of the catalogue, by name or id.")
@click.option("--class", "service_class", default="chat", show_default=True, help="The service class.")
@click.option("--replicas", type=click.IntRange(0), default=1, show_default=True)
@click.option("--engine", default=None)
@click.option("--dtype", default=None)
@click.option("--context", type=click.IntRange(1), default=None, help="The longest context, in tokens.")
@click.option("--wait", is_flag=True, help="Until a replica is ready.")
@pass_terminal
def create(terminal: Terminal, name: str, model: str, service_class: str, replicas: int, **options: Any) -> None:
    """Create a deployment and start it."""
    row = terminal.client.call(
        operations.CREATE_DEPLOYMENT,
        tenant=terminal.tenant_id,
        name=name,
        model=model,
        service_class=service_class,
        replica_count=replicas,
        engine=options["engine"],
        dtype=options["dtype"],
        max_model_len=options["context"],
    )
    _done(terminal, row, f"{name} is created", wait=options["wait"])


@group.command("scale")
@click.argument("name")
@click.argument("replicas", type=click.IntRange(0))
@click.option("--wait", is_flag=True, help="Until they are ready.")
@pass_terminal
def scale(terminal: Terminal, name: str, replicas: int, wait: bool) -> None:
    """Set how many replicas run."""
    row = terminal.client.call(operations.SCALE, terminal.deployment(name)["id"], replicas=replicas)
    _done(terminal, row, f"{row['name']} should have {row['replica_count']} replicas", wait=wait)


@group.command("start")
@click.argument("name")
@click.option("--wait", is_flag=True, help="Until a replica is ready.")
@pass_terminal
def start(terminal: Terminal, name: str, wait: bool) -> None:
    """Start a stopped deployment."""
    row = terminal.client.call(operations.START, terminal.deployment(name)["id"])
    _done(terminal, row, f"{row['name']} starts", wait=wait)


@group.command("stop")
@click.argument("name")
@pass_terminal
def stop(terminal: Terminal, name: str) -> None:
    """Stop a deployment: running requests finish, new ones are refused."""
    row = terminal.client.call(operations.STOP, terminal.deployment(name)["id"])
    _done(terminal, row, f"{row['name']} stops; its running requests finish first", wait=False)


def _done(terminal: Terminal, row: Any, text: str, *, wait: bool) -> None:
    if wait:
        row = _waited(terminal, row["id"])
        text = f"{row['name']} is {row['state']['state']}: {ready(row)} replicas ready"
    terminal.said(row, text)


def _waited(terminal: Terminal, deployment_id: str) -> Any:
    """The row once all that is wanted is ready. Says each new reason on stderr. Raises ``Failed``."""
    deadline, said = time.monotonic() + WAIT_S, ""
    while True:
        row = terminal.client.call(operations.DEPLOYMENT, deployment_id)
        state = row["state"]
        if state["ready"] >= state["wanted"] and state["state"] in ("running", "stopped"):
            return row
        if state["reason"] and state["reason"] != said:
            said = state["reason"]
            click.echo(f"{state['state']}: {said}", err=True)
        if time.monotonic() > deadline:
            raise Failed(f"{row['name']} is not ready after {WAIT_S:g} s: {state['reason'] or state['state']}")
        time.sleep(1.0)
