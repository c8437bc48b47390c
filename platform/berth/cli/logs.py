"""``berth logs``: the last lines of a deployment's replicas, and what follows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import click

from berth.cli import operations
from berth.cli.client import Failed
from berth.cli.terminal import Terminal, pass_terminal

POLL_S = 1.0


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until Ctrl-C.")
@click.option("-n", "--lines", type=click.IntRange(0, 200), default=50, show_default=True, help="Old lines first.")
@pass_terminal
def logs(terminal: Terminal, name: str, follow: bool, lines: int) -> None:
    """What the replicas of a deployment say; NAME is a deployment or a replica's id."""
    seen: dict[str, list[str]] = {}
    while True:
        replicas = list(_replicas(terminal, name))
        for replica in replicas:
            answer = terminal.client.call(operations.LOGS, replica)
            old = seen.get(replica)
            fresh = answer["lines"][-lines:] if old is None and lines else new_lines(old or [], answer["lines"])
            seen[replica] = answer["lines"]
            for line in fresh if old is not None or lines else ():
                click.echo(f"{replica[-6:]} | {line}" if len(replicas) > 1 else line)
        if not follow:
            return
        time.sleep(POLL_S)


def _replicas(terminal: Terminal, name: str) -> Iterator[str]:
    if name.startswith("rep_"):
        yield name
        return
    deployment = terminal.deployment(name)
    rows = terminal.client.rows(operations.REPLICAS, {"deployment": deployment["id"]}, most=20)
    living = [row["id"] for row in rows if row["state"] not in ("stopped", "failed", "lost")]
    if not (living or rows):
        raise Failed(f"{name} has no replica")
    yield from living or [rows[0]["id"]]


def new_lines(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """What ``new`` has beyond ``old``, of a log of which only the last lines are kept: the longest overlap counts."""
    for keep in range(min(len(old), len(new)), 0, -1):
        if list(old[-keep:]) == list(new[:keep]):
            return list(new[keep:])
    return list(new)
