"""``berth usage``: tokens, attainment and cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from berth.cli import operations
from berth.cli.terminal import Terminal, field, pass_terminal

GROUPS = ("day", "hour", "deployment", "key", "class", "member", "tenant")


@click.group(invoke_without_command=True)
@click.option("--days", type=click.IntRange(1, 400), default=7, show_default=True, help="How far back.")
@click.option("--by", "group", type=click.Choice(GROUPS), default="day", show_default=True)
@click.option("--deployment", default="", metavar="NAME", help="Only of this one.")
@pass_terminal
@click.pass_context
def usage(ctx: click.Context, terminal: Terminal, days: int, group: str, deployment: str) -> None:
    """What was used: requests, tokens, how many kept their promise, and the cost."""
    if ctx.invoked_subcommand is not None:
        return
    query = {
        "tenant": terminal.asked_tenant,
        "deployment": terminal.deployment(deployment)["id"] if deployment else None,
        "from": (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds"),
        "group": group,
    }
    answer = terminal.client.call(operations.USAGE, query=query)
    if terminal.as_json:
        terminal.document(answer)
        return
    rows = answer["rows"]
    if len(rows) > 1:
        rows = [*rows, {**answer["total"], "label": "All"}]
    columns = [
        (group.capitalize(), field("label")),
        ("Requests", number("requests")),
        ("Good", good),
        ("Prompt", number("prompt_tokens")),
        ("Cached", number("cached_tokens")),
        ("Output", number("completion_tokens")),
        ("Good tokens", number("good_tokens")),
        ("Cost", lambda row: f"{float(row['cost']):.4f} {answer['currency']}"),
    ]
    terminal.table(rows, columns, f"Nothing was used in the last {days} days.")


def number(name: str) -> Any:
    return lambda row: f"{row[name]:,}"


def good(row: Any) -> str:
    return f"{row['good'] / row['offered']:.1%}" if row["offered"] else "-"
