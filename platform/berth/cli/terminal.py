"""What every command shares: who calls, which tenant is meant, how an answer is shown."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from berth.cli import operations
from berth.cli.client import Client, Failed
from berth.cli.credentials import Credentials, load

F = TypeVar("F", bound=Callable[..., Any])


class Terminal:
    """``as_json``: answers of the API as they came, one document, and nothing else on stdout."""

    def __init__(self, *, as_json: bool, tenant: str) -> None:
        self.as_json = as_json
        self.credentials = load(os.environ)
        if tenant:
            self.credentials.tenant = tenant
        self.use(self.credentials)

    def use(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.client = Client(credentials)

    # --- which -----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def tenant_id(self) -> str:
        """The tenant that is meant: named, or the only one. Raises ``Failed`` naming the choice."""
        known = {row["id"]: row["slug"] for row in self.client.rows(operations.TENANTS)}
        wanted = self.credentials.tenant
        found = [tenant for tenant, slug in known.items() if not wanted or wanted in (tenant, slug)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(sorted(known.values())) or "none"
        if wanted:
            raise Failed(f"There is no tenant {wanted!r} among yours: {names}")
        raise Failed(f"Which tenant? Say --tenant with one of: {names}")

    @property
    def asked_tenant(self) -> str | None:
        """For lists: the tenant that was named, or None for all."""
        return self.tenant_id if self.credentials.tenant else None

    def deployment(self, name: str) -> Any:
        """By id or name. Raises ``Failed``."""
        if name.startswith("dep_"):
            return self.client.call(operations.DEPLOYMENT, name)
        rows = self.client.rows(operations.DEPLOYMENTS, {"tenant": self.asked_tenant, "name": name})
        rows = [row for row in rows if row["name"] == name]
        if len(rows) == 1:
            return rows[0]
        if not rows:
            raise Failed(f"There is no deployment {name!r}; berth deployments list shows those you may see")
        slugs = ", ".join(sorted(row["tenant"]["slug"] for row in rows))
        raise Failed(f"Several tenants have a deployment {name!r}: say --tenant with one of: {slugs}")

    def identity(self) -> tuple[Any, str]:
        """Who the credentials are, as the API answers and in words. Raises ``Failed`` when they are no good."""
        if self.credentials.key:  # a key is nobody: it acts in its tenant
            tenants = self.client.rows(operations.TENANTS)
            names = ", ".join(row["slug"] for row in tenants)
            return tenants, f"the key {self.credentials.key.partition('.')[0]} of {names}"
        me = self.client.call(operations.ME)
        roles = ", ".join(f"{row['tenant']['slug']} ({row['role']})" for row in me["memberships"])
        return me, f"{me['user']['email']}: {'operator' if me['is_operator'] else roles or 'in no tenant'}"

    # --- shown -----------------------------------------------------------------------------------------------------

    def document(self, answer: Any) -> None:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))

    def said(self, answer: Any, text: str) -> None:
        """The answer, or one line that says what it means."""
        if self.as_json:
            self.document(answer)
        else:
            click.echo(text)

    def table(self, answer: Sequence[Any], columns: Sequence[tuple[str, Callable[[Any], str]]], empty: str) -> None:
        """``columns``: (heading, how it is read from a row). Into a pipe the same, unstyled and uncut."""
        if self.as_json:
            self.document(list(answer))
            return
        if not answer:
            click.echo(empty)
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console(highlight=False)
        shown = Table(box=None, pad_edge=False, header_style="bold")
        for heading, _ in columns:
            shown.add_column(heading, overflow="fold", justify="right" if heading in _NUMBERS else "left")
        for row in answer:
            shown.add_row(*(Text(read(row)) for _, read in columns))
        if console.is_terminal:
            console.print(shown)
        else:
            Console(highlight=False, width=10_000).print(shown)


_NUMBERS = frozenset({"Ready", "Requests", "Good", "Prompt", "Cached", "Output", "Good tokens", "Cost"})


def field(path: str, missing: str = "-") -> Callable[[Any], str]:
    """Reads a dotted path; ``missing`` where there is nothing."""

    def read(row: Any) -> str:
        for name in path.split("."):
            row = row.get(name) if isinstance(row, dict) else None
        return missing if row in (None, "", []) else ", ".join(map(str, row)) if isinstance(row, list) else str(row)

    return read


def when(path: str, missing: str = "-") -> Callable[[Any], str]:
    """A time as people say it."""
    text = field(path, "")

    def read(row: Any) -> str:
        value = text(row)
        return ago(value) if value else missing

    return read


def ago(iso: str, now: datetime | None = None) -> str:
    at = datetime.fromisoformat(iso)
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    size = abs(seconds)
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if size >= length:
            return f"{size // length:.0f} {unit} ago" if seconds > 0 else f"in {size // length:.0f} {unit}"
    return "just now" if seconds >= 0 else "in a moment"


pass_terminal = click.make_pass_decorator(Terminal)
