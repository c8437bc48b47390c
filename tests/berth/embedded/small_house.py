"""``up`` with the real database and Redis and small stand-ins for our own processes. Run as a script by test_up.py.

Usage: small_house.py HOME PORT [stubborn]: ``stubborn`` makes the stand-in for web ignore SIGTERM.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

HOME, PORT, OPTIONS = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
REPOSITORY = Path(__file__).resolve().parents[3]
os.environ["BERTH_HOME"] = str(HOME)
os.environ["DJANGO_SETTINGS_MODULE"] = "berth.settings"
sys.path[:0] = [str(REPOSITORY / "platform"), str(REPOSITORY)]

signal.signal(signal.SIGINT, signal.SIG_DFL)  # as manage.py: an import may swallow KeyboardInterrupt

import django  # noqa: E402

django.setup()

from berth.config import CONFIG  # noqa: E402
from berth.embedded.children import ChildSpec  # noqa: E402
from berth.embedded.house import House  # noqa: E402
from berth.embedded.lock import AlreadyRunning  # noqa: E402
from berth.embedded.nodes import AgentNode  # noqa: E402
from berth.embedded.preflight import CannotStart  # noqa: E402
from berth.embedded.startup import Up  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)

SLEEPER = ("/bin/sleep", "600")
STUBBORN = ("/bin/sh", "-c", 'trap "" TERM; echo deaf; while :; do sleep 0.1; done')
MADE = {
    "operator": {"email": "operator@berth.local", "password": "first-password"},
    "tenant": "ten_1",
    "key": "key_1.secret",
    "deployment": None,
}


class SmallHouse(House):
    def specs(self) -> dict[str, ChildSpec]:
        commands = {"web": STUBBORN} if "stubborn" in OPTIONS else {}
        return {
            name: dataclasses.replace(spec, command=commands.get(name, SLEEPER), version="", grace_s=1.5)
            if name in ("web", "scheduler", "beat", "agent")
            else spec
            for name, spec in super().specs().items()
        }

    def ensure_node(self, node: AgentNode) -> str:
        return "node-token"

    def manage(self, *arguments: str) -> tuple[str, ...]:
        if arguments == ("bootstrap",):
            return ("/bin/echo", json.dumps(MADE))
        return ("/bin/true",)


if __name__ == "__main__":
    try:
        sys.exit(Up(SmallHouse(CONFIG, "127.0.0.1", PORT)).run())
    except (CannotStart, AlreadyRunning) as error:
        sys.stderr.write(f"berth: {error}\n")
        sys.exit(2)
