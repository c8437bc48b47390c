"""``berth usage chargeback`` and ``reconcile``: what to charge, and whether it is what the doors counted."""

from __future__ import annotations

from typing import Any

import click

from berth.cli import operations
from berth.cli.client import Failed
from berth.cli.terminal import Terminal, field, pass_terminal
from berth.cli.usage import good, number, usage

HOUR_LENGTH = len("2026-11-30T23:00")


@usage.command()
@click.option("--month", default="", metavar="YYYY-MM", help="Of UTC; this month when nothing is said.")
@click.option("--from", "start", default="", metavar="TIME", help="A whole hour of UTC, as 2026-11-30T08:00Z.")
@click.option("--to", "end", default="", metavar="TIME", help="A whole hour of UTC, not included.")
@click.option("--by", type=click.Choice(("key", "member")), default="key", show_default=True)
@click.option("--deployment", default="", metavar="NAME", help="Only of this one.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the export as CSV.")
@pass_terminal
def chargeback(terminal: Terminal, *, by: str, deployment: str, as_csv: bool, **span: str) -> None:
    """What to charge to whom: sealed hours, open ones, and each correction as a line of its own."""
    query = {
        "tenant": terminal.asked_tenant,
        "deployment": terminal.deployment(deployment)["id"] if deployment else None,
        "by": by,
        **{name: span[given] or None for name, given in (("month", "month"), ("from", "start"), ("to", "end"))},
    }
    if as_csv:
        click.echo(terminal.client.text(operations.CHARGEBACK_CSV, query=query), nl=False)
        return
    answer = terminal.client.call(operations.CHARGEBACK, query=query)
    if terminal.as_json:
        terminal.document(answer)
        return
    columns = [
        ("Kind", lambda row: row["kind"] if row["hour"] is None else f"correction of {_hour(row)}"),
        ("Tenant", field("tenant_name")),
        ("Deployment", field("deployment_name")),
        ("Class", field("class")),
        (by.capitalize(), field(f"{by}_name")),
        ("Requests", number("requests")),
        ("Good", good),
        ("Prompt", number("prompt_tokens")),
        ("Cached", number("cached_tokens")),
        ("Output", number("completion_tokens")),
        ("Good tokens", number("good_tokens")),
        ("Cost", lambda row: f"{row['cost']} {answer['currency']}"),
    ]
    terminal.table(answer["lines"], columns, "Nothing was used.")
    state = "sealed" if answer["sealed"] else "not sealed yet"
    click.echo(
        f"All: {answer['total']['requests']:,} requests, {answer['total']['cost']} {answer['currency']}; {state}"
    )


@usage.command()
@click.option("--from", "start", default="", metavar="TIME", help="Its hour; a day before --to when nothing is said.")
@click.option("--to", "end", default="", metavar="TIME", help="The end of its hour; now when nothing is said.")
@click.option("--deployment", default="", metavar="ID", help="Only of this one.")
@pass_terminal
def reconcile(terminal: Terminal, start: str, end: str, deployment: str) -> None:
    """Whether the records are what the doors counted. Ends with 1 when a settled hour differs. For operators."""
    query = {"deployment": deployment or None, "from": start or None, "to": end or None}
    answer = terminal.client.call(operations.RECONCILIATION, query=query)
    if terminal.as_json:
        terminal.document(answer)
    else:
        columns = [
            ("Hour", _hour),
            ("Deployment", lambda row: row["deployment_name"] or row["deployment"] or "-"),
            ("Doors", lambda row: f"{row['doors']['requests']:,}"),
            ("Records", lambda row: f"{row['records']['requests']:,}"),
            ("Loose", lambda row: f"{row['loose']['requests']:,}"),
            ("Waiting", lambda row: f"{row['waiting']['requests']:,}"),
            ("Difference", _difference),
            ("Settled", lambda row: "yes" if row["settled"] else "no"),
        ]
        terminal.table(answer["rows"], columns, "No door counted anything.")
        click.echo(f"{answer['open_requests']:,} requests are open.")
    if not answer["equal"]:
        raise Failed("A settled hour differs: its records are not what the doors counted")


def _hour(row: Any) -> str:
    return str(row["hour"])[:HOUR_LENGTH] + "Z"


def _difference(row: Any) -> str:
    """What of requests, prompt, cached and output tokens is not 0."""
    found = {name: value for name, value in row["difference"].items() if value}
    return ", ".join(f"{value:+,} {name.replace('_', ' ')}" for name, value in found.items()) or "0"
