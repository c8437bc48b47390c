"""What every benchmark's command line has in common, and how it ends."""

from __future__ import annotations

import argparse
import json
import math
import signal
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache"


def options_parser(doc: str | None) -> argparse.ArgumentParser:
    """The first line of ``doc`` as description, ``--json`` and ``--check``."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--check", action="store_true", help="exit 1 and name the figure when a target is missed")
    return parser


def add_only(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """``--only A,B``: which of the script's parts to run; all of them without it."""
    every = list(names)

    def chosen(text: str) -> list[str]:
        wanted = text.split(",")
        if unknown := sorted(set(wanted) - set(every)):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(every)}")
        return wanted

    parser.add_argument("--only", type=chosen, default=every, help=f"parts, of {','.join(every)}")


class Targets:
    """Figures beside their limits; ``missed`` names those beyond, and those that are no number."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def at_least(self, what: str, value: float, limit: float) -> None:
        if not value >= limit:
            self.missed.append(f"{what}: {value:.4g} (at least {limit:.4g})")

    def at_most(self, what: str, value: float, limit: float) -> None:
        if not value <= limit:
            self.missed.append(f"{what}: {value:.4g} (at most {limit:.4g})")


def run_parts(
    doc: str | None,
    parts: Mapping[str, Callable[[], Any]],
    report: Callable[[dict[str, Any]], None],
    failures: Callable[[dict[str, Any]], Sequence[str]],
) -> int:
    """A script of ``parts``: those that its command line names, one after the other; the exit code."""
    parser = options_parser(doc)
    add_only(parser, parts)
    options = parser.parse_args()
    end_on_signals()
    result: dict[str, Any] = {}
    for part in options.only:
        say(part)
        result[part] = parts[part]()
    report(result)
    return conclude(result, failures(result), options)


def end_on_signals() -> None:
    """SIGTERM and SIGHUP end the script as Ctrl-C does: what it started ends with it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))


def conclude(result: dict[str, Any], missed: Sequence[str], options: argparse.Namespace) -> int:
    """Writes the file, names what was missed; the exit code."""
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    for line in missed:
        print(f"missed: {line}")
    return 1 if options.check and missed else 0


def percentile(values: Sequence[float], q: float) -> float:
    """The value at rank ceil(q · n); NaN of nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else math.nan


def median(values: Sequence[float]) -> float:
    """NaN of nothing."""
    return statistics.median(values) if values else math.nan


def say(text: str) -> None:
    """Progress for a person; the figures alone go to stdout."""
    print(text, file=sys.stderr, flush=True)
