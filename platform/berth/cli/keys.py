"""``berth keys``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import click

from berth.cli import operations
from berth.cli.terminal import Terminal, field, pass_terminal, when


class _Money(click.ParamType):
    """An amount as it is written, never through a binary fraction."""

    name = "amount"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        try:
            amount = Decimal(value)
        except InvalidOperation:
            self.fail(f"{value!r} is no amount", param, ctx)
        if not (amount.is_finite() and amount > 0):
            self.fail(f"{value}: expected more than 0", param, ctx)
        return amount


MONEY = _Money()
SCOPES = ("inference", "management:read", "management")


# Options of limits: the API's names with hyphens.
_LIMITS: tuple[tuple[str, click.ParamType, str], ...] = (
    ("requests_per_minute", click.IntRange(1), "Requests a minute."),
    ("tokens_per_minute", click.IntRange(1), "Tokens a minute, in and out."),
    ("max_concurrency", click.IntRange(1), "Requests at a time."),
    ("tokens_per_day", click.IntRange(1), "Budget: tokens a day, in and out."),
    ("tokens_per_month", click.IntRange(1), "Budget: tokens a month, in and out."),
    ("cost_per_day", MONEY, "Budget: money a day, in the platform's currency."),
    ("cost_per_month", MONEY, "Budget: money a month, in the platform's currency."),
)


def _limit_options(command: Callable[..., None]) -> Callable[..., None]:
    for name, kind, text in reversed(_LIMITS):
        command = click.option(f"--{name.replace('_', '-')}", name, type=kind, default=None, help=text)(command)
    return command


@click.group("keys")
def group() -> None:
    """See, create, rotate and revoke API keys."""


@group.command("list")
@click.option("--all", "everything", is_flag=True, help="Revoked ones as well.")
@pass_terminal
def list_(terminal: Terminal, everything: bool) -> None:
    """A tenant's keys."""
    query = {"tenant": terminal.asked_tenant, "revoked": None if everything else "false"}
    columns = [
        ("Id", field("id")),
        ("Name", field("name")),
        ("Ends with", field("hint")),
        ("Scopes", field("scopes")),
        ("Last used", when("last_used_at", "never")),
        ("Expires", when("expires_at", "never")),
        ("Revoked", when("revoked_at", "")),
    ]
    terminal.table(terminal.client.rows(operations.KEYS, query), columns, "There are no keys: berth keys create NAME")


@group.command("create")
@click.argument("name")
@click.option("--days", type=click.IntRange(1, 3650), default=None, help="After how many days it expires.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="What it may do; several allowed.")
@click.option("--deployment", "deployments", multiple=True, metavar="NAME", help="Only for this one; several allowed.")
@_limit_options
@pass_terminal
def create(
    terminal: Terminal,
    name: str,
    days: int | None,
    scopes: tuple[str, ...],
    deployments: tuple[str, ...],
    **limits: int | Decimal | None,
) -> None:
    """Make a key. It is printed once, alone on standard output: keep it now.

    Its limits and budgets hold beside its tenant's and the contract's: the smallest counts. Days and months are UTC's.
    """
    given: dict[str, Any] = {name: str(one) if isinstance(one, Decimal) else one for name, one in limits.items()}
    expires = (datetime.now(UTC) + timedelta(days=days)).isoformat() if days else None
    answer = terminal.client.call(
        operations.CREATE_KEY,
        tenant=terminal.tenant_id,
        name=name,
        expires_at=expires,
        scopes=list(scopes) or None,
        deployments=[terminal.deployment(one)["id"] for one in deployments] or None,
        **given,
    )
    if not terminal.as_json:
        click.echo(f"{answer['key']['id']} is made. This is the only time that it is shown:", err=True)
    terminal.said(answer, answer["token"])


@group.command("rotate")
@click.argument("key_id")
@click.option(
    "--grace", type=click.IntRange(0), default=3600, show_default=True, help="Seconds the old one still works."
)
@pass_terminal
def rotate(terminal: Terminal, key_id: str, grace: int) -> None:
    """Give a key a new secret; the old one works until the grace is over."""
    answer = terminal.client.call(operations.ROTATE_KEY, key_id, grace_seconds=grace)
    if not terminal.as_json:
        until = when("key.previous_until", "now")(answer)
        click.echo(f"{key_id} has a new secret; the old one ends {until}. Shown this once:", err=True)
    terminal.said(answer, answer["token"])


@group.command("revoke")
@click.argument("key_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_terminal
def revoke(terminal: Terminal, key_id: str, yes: bool) -> None:
    """End a key, within a second on every gateway."""
    if not yes:
        click.confirm(f"Requests with {key_id} will be refused. Revoke it?", abort=True, err=True)
    answer = terminal.client.call(operations.REVOKE_KEY, key_id)
    terminal.said(answer, f"{answer['name']} ({answer['id']}) is revoked.")
