"""A process in a runtime's place, for the mechanics of supervision: reads its configuration, reports itself, obeys.

``engine.extra_args`` says how: ``exit=CODE`` ends after reporting, ``fail=REASON`` reports failed and ends,
``stubborn`` ignores SIGTERM, ``child`` starts a process of its own, ``drain=S`` takes so long to drain,
``parting=T`` says T at its end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from gpuruntime.process import process_start_time
from gpuruntime.protocol import RunFile, RuntimeConfig


def main() -> None:
    config = msgspec.json.decode(sys.stdin.buffer.read(), type=RuntimeConfig)
    said = dict(item.partition("=")[::2] for item in config.engine.extra_args)
    run = RunFile(
        replica_id=config.replica_id,
        pid=os.getpid(),
        start_time=process_start_time(os.getpid()) or 0,
        epoch=f"epoch-{os.getpid()}",
        state="loading",
        model_path=config.model_path,
    )

    def report(state: str, reason: str = "") -> None:
        run.state, run.reason = state, reason  # type: ignore[assignment]
        path = Path(config.run_file)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(msgspec.json.encode(run))
        temporary.replace(path)

    def end(*_: object) -> None:
        report("draining")
        time.sleep(float(said.get("drain", 0)))
        report("stopped", said.get("parting", ""))
        sys.exit(0)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in said else end)
    print(f"stand-in for {config.replica_id} of {config.served_model_name}", flush=True)
    print(f"device={config.device_uuid} memory={config.device_memory_bytes}", flush=True)
    if "child" in said:
        child = subprocess.Popen(["sleep", "300"])
        print(f"child={child.pid}", flush=True)
    if "fail" in said:
        report("failed", said["fail"])
        sys.exit(3)
    if "exit" in said:
        print("about to break", flush=True)
        sys.exit(int(said["exit"]))
    run.port = 1
    report("ready")
    while True:
        signal.pause()


main()
