"""The engine's own process, told by the door that started it.

    python -m gpuruntime.engine.served FOLDER        started by ``engine.process``; FOLDER has the two sockets

One thread reads commands; the main thread steps and sends what came out. It ends with the door.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import queue
import sys
import threading
from pathlib import Path

import zmq

from gpuruntime.backend import BackendStats
from gpuruntime.engine import wire
from gpuruntime.engine.core import StepOutput
from gpuruntime.engine.loader import load_engine
from gpuruntime.engine.loop import Abort, Inbox, Stop, run_engine
from gpuruntime.engine.process import COMMANDS, REPLIES
from gpuruntime.process import leave_the_end_to_parent

LAST_WORD_MS = 1000

log = logging.getLogger("gpuruntime.engine")


def main(argv: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    leave_the_end_to_parent()
    if os.getppid() != int(argv[2]):  # it ended before this was set
        return 1
    context = zmq.Context()
    commands, replies = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    commands.connect(f"ipc://{Path(argv[1]) / COMMANDS}")
    replies.connect(f"ipc://{Path(argv[1]) / REPLIES}")
    try:
        return _serve(commands, replies)
    finally:
        replies.close(linger=LAST_WORD_MS)
        context.term()  # returns when the last word was said; the thread that reads closes its own


def _serve(commands: zmq.Socket[bytes], replies: zmq.Socket[bytes]) -> int:
    try:
        load = wire.decode_command(commands.recv())
        if not isinstance(load, wire.Load) or load.version != wire.VERSION:
            raise ValueError("the files of this Berth were replaced while it ran: restart the replica")
        engine = load_engine(load.config)
    except Exception as error:
        commands.close()
        replies.send(wire.encode(wire.Refused(_words(error), isinstance(error, ValueError))))
        return 1
    # A full collection would walk torch's 180,000 objects and hold a launch up for some 0.2 s.
    gc.freeze()
    replies.send(wire.encode(wire.Loaded(engine.limits, engine.weights_bytes)))
    inbox: Inbox = queue.SimpleQueue()
    threading.Thread(target=_read, args=(commands, inbox), name="commands", daemon=True).start()

    def deliver(outputs: list[StepOutput], stats: BackendStats) -> None:
        replies.send(wire.encode(wire.Stepped(outputs, stats)))

    try:
        run_engine(engine, inbox, deliver)
    except Exception as error:
        log.exception("a step failed")
        replies.send(wire.encode(wire.Broke(f"{type(error).__name__}: {error}")))
        return 1
    return 0


def _read(commands: zmq.Socket[bytes], inbox: Inbox) -> None:
    """Until the context ends; an engine that is told nothing any more ends too."""
    with commands, contextlib.suppress(zmq.ContextTerminated):
        try:
            while True:
                command = wire.decode_command(commands.recv())
                if isinstance(command, wire.Enter):
                    inbox.put(command.request())
                elif isinstance(command, wire.Leave):
                    inbox.put(Abort(command.key))
                else:
                    inbox.put(Stop())
        finally:
            inbox.put(Stop())


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv))
