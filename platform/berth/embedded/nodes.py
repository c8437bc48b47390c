"""The nodes whose agents ``up`` starts on this machine: one, or each node of a simulated fleet."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from berth.config import Config
from berth.embedded.children import kill_group
from berth.embedded.paths import Home
from gpuruntime.process import is_process

LOCAL = "local"


class BadFleet(RuntimeError):
    """BERTH_PROVIDER or BERTH_SIMULATED_FILE cannot be used; the text says which and why."""


@dataclass(frozen=True)
class AgentNode:
    """``child``: the agent's name among the processes; ``state``: its folder of run files, logs and models."""

    name: str
    child: str
    state: Path
    token_file: Path


def agent_nodes(config: Config, home: Home) -> list[AgentNode]:
    """Raises ``BadFleet``."""
    if config.provider in ("cpu", "nvml"):
        return [AgentNode(LOCAL, "agent", home.node, home.node_token(LOCAL))]
    if config.provider != "simulated":
        raise BadFleet(f"BERTH_PROVIDER={config.provider!r}: manage.py up starts agents of cpu, nvml and simulated")
    if not config.simulated_file:
        raise BadFleet("BERTH_PROVIDER=simulated needs BERTH_SIMULATED_FILE, e.g. examples/fleets/one-node.toml")
    names = _names(Path(config.simulated_file))
    return [AgentNode(name, f"agent-{name}", home.nodes / name, home.node_token(name)) for name in names]


def _names(path: Path) -> list[str]:
    try:
        names = [str(node["name"]) for node in tomllib.loads(path.read_text())["node"]]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise BadFleet(f"BERTH_SIMULATED_FILE={path}: no fleet of [[node]] tables with names ({error})") from None
    if not names or any("/" in name or name.startswith(".") for name in names):
        raise BadFleet(f"BERTH_SIMULATED_FILE={path}: every node needs a name that can be a folder's, found {names}")
    return names


def ensure_node(node: AgentNode, given_token: str) -> str:
    """Makes the node's row and its token unless they are there; returns the token. The database must be migrated."""
    from django.db import connection

    from berth.core.secrets import secret
    from berth.fleet.services import ensure_node as ensure

    token = given_token or secret(node.token_file.name)
    try:
        ensure(name=node.name, token=token, actor="manage.py up")
    finally:
        connection.close()
    return token


def states_with_runtimes(home: Home) -> list[Path]:
    """The agents' folders that name a runtime or an MPS daemon, also of a node that this run no longer has."""
    states = (home.node, *home.nodes.glob("*"))
    return [state for state in states if any(state.glob("run/*.pid")) or _names_daemons(state)]


def _names_daemons(state: Path) -> bool:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return bool(json.loads((state / "slices.json").read_text())["daemons"])
    return False


def kill_runtimes(states: Iterable[Path]) -> None:
    """Kills every runtime recorded in these folders. For the end without waiting."""
    for path in [path for state in states for path in state.glob("run/*.pid")]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record: Mapping[str, object] = json.loads(path.read_text())
            pid, started = int(str(record["pid"])), float(str(record["start_time"]))
            if is_process(pid, started):
                kill_group(pid)
