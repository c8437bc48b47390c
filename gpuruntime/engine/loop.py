"""Runs steps until told to stop, on a thread beside the door or in a process of its own; commands come over a queue."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuruntime.backend import BackendStats
from gpuruntime.engine.core import EngineCore, StepOutput
from gpuruntime.engine.loader import LoadedEngine
from gpuruntime.engine.request import Request

IDLE_S = 0.2
STEPS_BETWEEN_PROBES = 50


@dataclass(frozen=True, slots=True)
class Abort:
    key: int


class Stop:
    """Ends the loop."""


Command = Request | Abort | Stop
Inbox = queue.SimpleQueue[Command]
# Called after every step and every change while idle; the outputs may be none.
Deliver = Callable[[list[StepOutput], BackendStats], None]


def run_engine(engine: LoadedEngine, inbox: Inbox, deliver: Deliver) -> None:
    """Returns when told to stop; raises what a step raised, after which no request can be served."""
    core, probe = engine.core, engine.probe()
    steps = 0
    deliver([], core.stats())
    while True:
        outputs: list[StepOutput] = []
        if not _drain(core, inbox, probe, outputs):
            return
        if core.busy:
            engine.governor.watch()
            outputs += core.step()
            steps += 1
            if steps % STEPS_BETWEEN_PROBES == 0:
                next(probe, None)
        deliver(outputs, core.stats())


def _drain(core: EngineCore, inbox: Inbox, probe: Iterator[None], outputs: list[StepOutput]) -> bool:
    """Takes every command that is there, waiting for one when idle; False when told to stop."""
    audited = False
    while True:
        try:
            command = inbox.get(block=not (core.busy or outputs), timeout=IDLE_S)
        except queue.Empty:
            if core.busy or outputs:
                return True
            next(probe, None)
            if not audited:  # a block lost while idle is lost for good: better to fail than to shrink
                core.audit()
                audited = True
            continue
        if isinstance(command, Stop):
            return False
        if isinstance(command, Abort):
            ended = core.abort(command.key)
            outputs += [ended] if ended else []
        else:
            core.add(command)
