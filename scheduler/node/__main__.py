"""``python -m scheduler.node``: the node agent. Ends on SIGTERM or SIGINT and leaves the runtimes running."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import structlog
from prometheus_client import CollectorRegistry

from scheduler.metrics_port import BadAddress, MetricsPort, parse_address, render
from scheduler.node.agent import Agent, Identity
from scheduler.node.metrics import AgentCollector
from scheduler.node.modelcache import DEFAULT_CACHE_BYTES, ModelCache
from scheduler.node.paths import StateDir, StateDirTaken, UnsafeName, boot_id, safe_name
from scheduler.node.providers.base import Provider, ProviderError
from scheduler.node.providers.cpu import CpuProvider
from scheduler.node.providers.detect import detected
from scheduler.node.providers.simulated import SimulatedProvider
from scheduler.node.replica import RuntimeSettings
from scheduler.node.slices.keeper import SliceKeeper, end_daemons
from scheduler.node.slices.mps import program_of
from scheduler.node.stopall import stop_all
from scheduler.node.supervisor import Supervisor


class UsageError(ValueError):
    """An argument that cannot be used; the text says which and how."""


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    state = StateDir(arguments.state_dir.absolute())
    try:
        state.create()
        with _locked(state, wait_s=5 if arguments.stop_all else 2):
            if arguments.stop_all:
                stop_all(state, grace_s=arguments.grace)
                end_daemons(state.root, boot=boot_id())
                return 0
            asyncio.run(_run(arguments, state))
    except (UsageError, ProviderError, UnsafeName, StateDirTaken, OSError) as error:
        sys.stderr.write(f"berth node agent: {error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scheduler.node", description="Runs the replicas of one node.")
    parser.add_argument("--state-dir", type=Path, required=True, help="folder of its own: run files, logs, models")
    parser.add_argument("--join", metavar="URL", help="the control plane: ws://HOST:PORT or wss://HOST:PORT")
    parser.add_argument("--token", help="the node token; better --token-file or BERTH_NODE_TOKEN, which no `ps` shows")
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--name", help="the node's name")
    parser.add_argument("--address", default="127.0.0.1", help="where gateways reach this node's runtimes")
    parser.add_argument(
        "--provider",
        choices=["auto", "cpu", "nvml", "simulated"],
        default="auto",
        help="what to offer; auto: the NVIDIA GPUs where the machine has any, else its processors",
    )
    parser.add_argument("--simulated-file", type=Path, help="the fleet of --provider simulated, in TOML")
    parser.add_argument("--stop-all", action="store_true", help="end every runtime of --state-dir, then exit")
    parser.add_argument("--grace", type=float, default=5.0, help="seconds that --stop-all lets requests finish")
    return parser


@contextlib.contextmanager
def _locked(state: StateDir, *, wait_s: float) -> Iterator[IO[str]]:
    # An agent that was just killed may need a moment to be gone.
    deadline = time.monotonic() + wait_s
    while True:
        try:
            handle = state.lock()
        except StateDirTaken:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            with handle:
                yield handle
            return


async def _run(arguments: argparse.Namespace, state: StateDir) -> None:
    identity = _identity(arguments)
    provider = _provider(arguments, identity.node, state)
    settings = RuntimeSettings(
        command=[sys.executable, "-m", "gpuruntime", "serve"], control_url=identity.join, host=identity.address
    )
    models = ModelCache(
        state.models,
        base_url=identity.http_url,
        headers=identity.headers,
        limit_bytes=_cache_bytes(),
    )
    keeper = SliceKeeper(
        provider.cutter,
        provider.devices([]),
        state.root,
        boot=boot_id(),
        mps_program=program_of(provider.name),
    )
    supervisor = Supervisor(state, models, settings, keeper.desk)
    agent = Agent(identity, provider, supervisor, keeper)
    _serve_metrics(AgentCollector(identity.node, agent, provider, supervisor, keeper.desk))
    task = asyncio.create_task(agent.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _serve_metrics(collector: AgentCollector) -> None:
    """At BERTH_AGENT_METRICS, if set. A port that is taken costs the metrics, not the node."""
    text = os.environ.get("BERTH_AGENT_METRICS", "")
    if not text:
        return
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        MetricsPort(parse_address(text), os.environ.get("BERTH_METRICS_TOKEN", ""), lambda: render(registry)).start()
    except BadAddress as error:
        raise UsageError(f"BERTH_AGENT_METRICS: {error}") from error
    except OSError as error:
        structlog.get_logger(__name__).error("metrics not served", address=text, reason=str(error))


def _identity(arguments: argparse.Namespace) -> Identity:
    parts = urlsplit(arguments.join or "")
    if parts.scheme not in ("ws", "wss") or not parts.netloc:
        raise UsageError(f"--join is {arguments.join!r}; it must be ws://HOST:PORT or wss://HOST:PORT")
    if not arguments.name:
        raise UsageError("--name is missing: the node's name in the fleet")
    token = arguments.token or os.environ.get("BERTH_NODE_TOKEN", "")
    if arguments.token_file is not None:
        token = arguments.token_file.read_text().strip()
    if not token:
        raise UsageError("no node token: give --token-file F, or set BERTH_NODE_TOKEN")
    return Identity(
        join=arguments.join.rstrip("/"), token=token, node=safe_name(arguments.name), address=arguments.address
    )


def _provider(arguments: argparse.Namespace, node: str, state: StateDir) -> Provider:
    name = detected() if arguments.provider == "auto" else arguments.provider
    if name == "cpu":
        return CpuProvider(node=node)
    if name == "nvml":
        from scheduler.node.providers.nvml import NvmlProvider

        return NvmlProvider(node=node)
    if arguments.simulated_file is None:
        raise UsageError("--provider simulated needs --simulated-file FLEET.toml")
    return SimulatedProvider(node=node, path=arguments.simulated_file, state=state.root)


def _cache_bytes() -> int:
    text = os.environ.get("BERTH_MODEL_CACHE_BYTES", str(DEFAULT_CACHE_BYTES))
    if not text.isdigit() or int(text) == 0:
        raise UsageError(f"BERTH_MODEL_CACHE_BYTES is {text!r}; it must be a whole number above 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
