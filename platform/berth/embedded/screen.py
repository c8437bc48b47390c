"""The terminal of ``manage.py up``: one live screen on a terminal, one line a change anywhere else."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from berth.embedded.children import Child, State
from berth.embedded.status import View

_COLOURS = {"running": "green", "ready": "green", "backoff": "red", "failed": "red", "lost": "red", "ended": "red"}


@dataclass
class Facts:
    """What stays on the screen: the address, the sign-in, and the demo key in the one run that made it."""

    url: str
    logs: str
    notes: list[str] = field(default_factory=list)


class Screen(Protocol):
    def say(self, text: str) -> None:
        """One line that stays in the scrollback."""

    def show(self, children: dict[str, Child], view: View, facts: Facts, step: str) -> None: ...

    def close(self) -> None: ...


def open_screen() -> Screen:
    return LiveScreen() if sys.stdout.isatty() else PlainScreen()


class PlainScreen:
    """Changes only: what a log file or a pipe can use."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._noted = 0

    def say(self, text: str) -> None:
        # A reader that left (a closed pipe, a terminal that hung up) must not keep ``up`` from stopping in order.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def show(self, children: dict[str, Child], view: View, facts: Facts, step: str) -> None:
        lines = {f"service {name}": describe(child) for name, child in children.items() if child.spec.restart}
        for line in view.replicas:
            lines[f"replica {line.deployment} {line.id}"] = _with_reason(line.state, line.reason)
        for model in view.models:
            lines[f"model {model.name}"] = _with_reason(_model_state(model.state, model.progress), model.reason)
        for name in [name for name in self._seen if name not in lines]:
            self.say(f"{name}: {'done' if name.startswith('model') else 'ended'}")
            del self._seen[name]
        for name, text in lines.items():
            # A percentage counts as a change every quarter: the whole of a download would be a hundred lines.
            coarse = re.sub(r"(\d+)%", lambda found: f"{int(found[1]) // 25}/4", text)
            if self._seen.get(name) != coarse:
                self._seen[name] = coarse
                self.say(f"{name}: {text}")
        for note in facts.notes[self._noted :]:
            self.say(note)
        self._noted = len(facts.notes)

    def close(self) -> None:
        pass


class LiveScreen:
    """Redrawn in place, four times a second at most."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._live.start()
        self._next = 0.0
        self._noted = 0

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._console.print(text, markup=False, soft_wrap=True)

    def show(self, children: dict[str, Child], view: View, facts: Facts, step: str) -> None:
        # Above the live part, unwrapped by us: a curl line that is copied must hold no line break of ours.
        for note in facts.notes[self._noted :]:
            self.say(note)
        self._noted = len(facts.notes)
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.25
        with contextlib.suppress(OSError, ValueError):
            self._live.update(render(children, view, facts, step), refresh=True)

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._live.stop()


def render(children: dict[str, Child], view: View, facts: Facts, step: str) -> RenderableType:
    """The whole screen as it is now."""
    parts: list[RenderableType] = [Text.assemble(("Berth", "bold"), "  ", (facts.url, "cyan"), "  ", (step, "dim"))]
    services = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("service", "state", "up", "restarts", ""):
        services.add_column(title, header_style="dim")
    for name, child in children.items():
        if child.spec.restart:
            state = Text(child.state, _COLOURS.get(child.state, ""))
            since = _duration(time.monotonic() - child.since) if child.state is State.RUNNING else ""
            services.add_row(name, state, since, str(child.restarts or ""), child.last_exit if child.restarts else "")
    parts += [Text(), services]
    if view.replicas or view.models:
        rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in ("model or replica", "state", "reason"):
            rows.add_column(title, header_style="dim")
        for model in view.models:
            rows.add_row(model.name, _coloured(model.state, _model_state(model.state, model.progress)), model.reason)
        for line in view.replicas:
            rows.add_row(f"{line.deployment} {line.id}", _coloured(line.state, line.state), line.reason)
        parts += [Text(), rows]
    parts += [Text(), Text(f"Logs: {facts.logs}; manage.py logs NAME follows one. Ctrl-C stops everything.", "dim")]
    return Group(*parts)


def describe(child: Child) -> str:
    """A service's state in words; the same text while nothing changed."""
    if child.state is State.BACKOFF:
        return f"died ({child.last_exit}), starts again"
    if child.state is State.RUNNING and child.restarts:
        return f"running, restart {child.restarts} ({child.last_exit})"
    return str(child.state)


def _with_reason(state: str, reason: str) -> str:
    return f"{state} ({reason})" if reason else state


def _model_state(state: str, progress: float) -> str:
    return f"{state} {progress:.0%}" if state == "registering" else state


def _coloured(state: str, text: str) -> Text:
    return Text(text, _COLOURS.get(state, "yellow"))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
