"""The replica's process: opens the door, loads the model behind it, drains on SIGTERM.

loading -> ready -> draining -> stopped          exit 0
      \\-> failed (the model cannot be loaded)    exit 1
ready -> failed (the engine died)               exit 1
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Generator
from typing import TextIO

import uvicorn
import uvloop

from gpuruntime.bounded_http import BoundedHttp
from gpuruntime.door.app import build_app
from gpuruntime.door.backends import make_backend
from gpuruntime.door.errors import ApiError
from gpuruntime.door.replica import Replica
from gpuruntime.door.report import Reporter
from gpuruntime.door.run import ABORT_S
from gpuruntime.door.settings import Settings, SettingsError, read_settings
from gpuruntime.process import resident_bytes

ALIVE_CHECK_S = 0.5
HTTP_END_S = 2
FLUSH_S = 3.0
# Of requests that were cut off so many are named in the reason; the log has all.
NAMED = 3

log = logging.getLogger("gpuruntime.serve")


class _Server(uvicorn.Server):
    """Signals belong to the runtime: SIGTERM means drain, not stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Runtime:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._replica = Replica(settings.config)
        self._stop = asyncio.Event()
        self._at_once = asyncio.Event()
        self._reporter: Reporter | None = None
        self._parting = ""

    async def run(self) -> int:
        """Serves until told to stop. The exit code."""
        config, replica = self._settings.config, self._replica
        try:
            listener = listen(config.host, config.port)
        except OSError as error:
            return self._fail(f"cannot listen on {config.host}:{config.port}: {error.strerror or error}")
        replica.port = listener.getsockname()[1]
        replica.write_run_file()
        self._watch_signals()
        server = _Server(
            uvicorn.Config(
                build_app(replica),
                http=BoundedHttp,
                loop="uvloop",
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=HTTP_END_S,
            )
        )
        http = asyncio.create_task(server.serve(sockets=[listener]))
        code = 1
        try:
            code = await self._serve()
        except Exception as error:
            log.exception("the runtime broke")
            self._fail(f"internal error: {type(error).__name__}: {error}")
        finally:
            server.should_exit = True
            await http
            await self._close(code)
        return code

    async def _serve(self) -> int:
        loading = asyncio.create_task(self._load())
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            loading.cancel()
            return 0
        if (reason := loading.result()) is not None:
            return self._fail(reason)
        self._announce()
        reporting = asyncio.create_task(self._report())
        try:
            while not self._stop.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ALIVE_CHECK_S):
                        await self._stop.wait()
                if self._replica.backend is not None and not self._replica.backend.alive():
                    code = self._fail("the engine died; see the log")
                    await self._flush()
                    return code
            await self._drain()
            await self._flush()
            return 0
        finally:
            reporting.cancel()

    async def _load(self) -> str | None:
        """Why the model cannot be served, or None."""
        backend = None
        try:
            backend = await make_backend(self._settings.config)
            info = await backend.start()
        except asyncio.CancelledError:
            if backend is not None:
                await backend.stop()
            raise
        except (ValueError, OSError) as error:
            log.error("the model cannot be loaded: %s", error)
            return str(error)
        except (ImportError, RuntimeError, MemoryError) as error:
            log.exception("the model cannot be loaded")
            return f"{type(error).__name__}: {error}"
        self._replica.serve(backend, info)
        return None

    async def _report(self) -> None:
        if self._settings.config.control_url:
            self._reporter = Reporter(self._replica)
            await self._reporter.run()

    async def _drain(self) -> None:
        """Running and waiting requests finish, within the limit; a second signal cuts it short."""
        replica, limit_s = self._replica, self._settings.config.drain_timeout_s
        replica.become("draining", f"finishing {len(replica.active)} requests")
        idle = asyncio.create_task(replica.idle.wait())
        hurry = asyncio.create_task(self._at_once.wait())
        await asyncio.wait({idle, hurry}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        why = "it was told to stop at once" if self._at_once.is_set() else f"its {limit_s:g} s to finish are over"
        cut = list(replica.active)
        if cut:
            ids = [run.account.request_id for run in cut]
            log.warning("cut off at the stop, %s: %s", why, ", ".join(ids))
            named = [*ids[:NAMED], *([f"and {len(ids) - NAMED} more"] if len(ids) > NAMED else [])]
            self._parting = f"{len(ids)} requests were cut off, {why}: {', '.join(named)}"
        for run in cut:
            run.fail(ApiError(503, f"The replica stops: {why}.", code="replica_stopped", retry_after_s=1))
        await asyncio.wait({idle}, timeout=ABORT_S + 0.5)
        idle.cancel()

    async def _flush(self) -> None:
        if self._reporter is not None and not self._at_once.is_set():
            await self._reporter.flush(FLUSH_S)

    async def _close(self, code: int) -> None:
        replica = self._replica
        if replica.backend is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await replica.backend.stop()
        await replica.spool.close()
        if replica.tracing is not None:
            await asyncio.to_thread(replica.tracing.stop)
        if code == 0:
            replica.become("stopped", self._parting)

    def _fail(self, reason: str) -> int:
        self._replica.become("failed", reason)
        if self._settings.standalone:
            say(f"error: {reason}", sys.stderr)
        return 1

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        if self._stop.is_set():
            self._at_once.set()
        elif self._settings.standalone and self._replica.active:
            say(f"\nfinishing {len(self._replica.active)} requests; once more stops at once")
        self._stop.set()

    def _announce(self) -> None:
        replica, config = self._replica, self._settings.config
        log.info("port=%d memory_mb=%d pending=%d", replica.port, resident_bytes() >> 20, len(replica.spool))
        info = replica.info
        if info is not None and info.predicted_weights_bytes and info.predicted_bytes and info.weights_bytes:
            weights, predicted = info.weights_bytes >> 20, info.predicted_weights_bytes >> 20
            total = info.predicted_bytes >> 20
            log.info("weights_mb=%d predicted_weights_mb=%d predicted_with_full_kv_mb=%d", weights, predicted, total)
        if not self._settings.standalone:
            return
        url = f"http://{config.host}:{replica.port}"
        body = (
            f'{{"model":"{config.served_model_name}","stream":true,"messages":[{{"role":"user","content":"Hello"}}]}}'
        )
        say(f"{config.served_model_name} is ready at {url}/v1\n")
        say(f"  curl -N {url}/v1/chat/completions -H 'Authorization: Bearer {config.token}' -d '{body}'\n")


def say(text: str, stream: TextIO | None = None) -> None:
    """A line for a person. Whoever read our output may be gone: that is no reason to stop."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=stream or sys.stdout, flush=True)


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


def main(argv: list[str]) -> int:
    logging.raiseExceptions = False  # a log nobody can read any more must not end a replica
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    try:
        settings = read_settings(argv)
    except SettingsError as error:
        say(f"error: {error}", sys.stderr)
        return 2
    if settings.standalone:
        logging.getLogger().setLevel(logging.WARNING)
    else:
        with contextlib.suppress(PermissionError):  # it leads its own session already
            os.setsid()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(_run(settings))
        # Not the interpreter's exit: a thread that still loads a model would hold it up.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


async def _run(settings: Settings) -> int:
    return await Runtime(settings).run()
