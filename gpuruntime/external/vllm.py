"""vLLM behind our door: ``vllm serve`` as a child on a private loopback port, with its own process group.

The child dies with us (PR_SET_PDEATHSIG), and its whole group is killed at the end: its engine core is a process of its
own. ``BERTH_VLLM_BIN`` names the program when ``vllm`` is not on PATH.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
from functools import partial
from pathlib import Path

import aiohttp
from tokenizers import Tokenizer

from gpuruntime.backend import BackendInfo
from gpuruntime.external.openai_body import EXTENSIONS, SCORES
from gpuruntime.external.openai_server import OpenAIServerBackend
from gpuruntime.loading.tokenizer import template_source
from gpuruntime.loading.vocabulary import Vocabulary
from gpuruntime.modelinfo import ModelFileError, read_model
from gpuruntime.process import end_with_parent
from gpuruntime.protocol import RuntimeConfig
from gpuruntime.tools.formats import ToolFormat, tool_format

START_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 10.0

log = logging.getLogger("gpuruntime.vllm")


class VllmBackend(OpenAIServerBackend):
    """Starts and owns the server it proxies to.

    It scores tokens by their ids, whose bytes are read from the model's own tokenizer; a prompt it scores for no
    stream, and our door only streams. Grammars it compiles as we do, by llguidance. Tools it renders; their calls the
    door reads out of the text, by the format of the model's template, so vLLM needs no parser of its own.
    """

    engine = "vllm"

    def __init__(self, config: RuntimeConfig) -> None:
        self._config = config
        self._port = _free_port()
        self._secret = secrets.token_urlsafe(24)
        self._process: asyncio.subprocess.Process | None = None
        settings = config.engine
        super().__init__(
            f"http://127.0.0.1:{self._port}",
            config.served_model_name,
            max_model_len=settings.max_model_len or 4096,
            max_num_seqs=settings.max_num_seqs,
            token=self._secret,
            default_sampling=_model_sampling(Path(config.model_path)),
            extensions=EXTENSIONS,
        )
        self._vocabulary: Vocabulary | None = None

    async def start(self) -> BackendInfo:
        """Minutes on a slow machine. Raises ``ValueError`` when vLLM is missing or ends before it is ready."""
        program = find_vllm()
        try:
            model = read_model(Path(self._config.model_path))
        except ModelFileError as error:
            raise ValueError(str(error)) from error
        self._process = await asyncio.create_subprocess_exec(
            program,
            *self.arguments(),
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            stderr=sys.stderr.fileno(),
            start_new_session=True,
            preexec_fn=partial(end_with_parent, signal.SIGTERM),
        )
        await self._until_healthy()
        info = await super().start()
        self._vocabulary = await asyncio.to_thread(_vocabulary, Path(self._config.model_path))
        form = _tool_format(Path(self._config.model_path))
        refuses = SCORES if self._vocabulary is None else frozenset({"prompt_logprobs"})
        return BackendInfo(
            engine=self.engine,
            model=info.model,
            max_model_len=info.max_model_len,
            max_num_seqs=info.max_num_seqs,
            kv_capacity_tokens=None,
            weights_bytes=model.parameter_count * (4 if self._config.engine.dtype == "fp32" else 2),
            dtype=self._config.engine.dtype,
            vocab_size=model.vocab_size,
            refuses=refuses | (frozenset({"tools"}) if form is None else frozenset()),
            tool_format=form,
        )

    def token_bytes(self, token: int) -> bytes:
        return b"" if self._vocabulary is None else self._vocabulary.token_bytes(token)

    async def stop(self) -> None:
        await super().stop()
        process = self._process
        if process is None:
            return
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        _signal_group(process.pid, signal.SIGKILL)  # also what outlived its leader
        await process.wait()

    def alive(self) -> bool:
        return super().alive() and self._process is not None and self._process.returncode is None

    def arguments(self) -> list[str]:
        settings = self._config.engine
        return [
            "serve",
            self._config.model_path,
            *("--served-model-name", self._config.served_model_name),
            *("--host", "127.0.0.1"),
            *("--port", str(self._port)),
            *("--dtype", "float32" if settings.dtype == "fp32" else "bfloat16"),
            *("--max-num-seqs", str(settings.max_num_seqs)),
            *("--max-num-batched-tokens", str(max(settings.max_num_batched_tokens, self._max_model_len))),
            *("--max-model-len", str(self._max_model_len)),
            *("--kv-cache-memory-bytes", str(settings.kv_bytes)),
            "--enable-prompt-tokens-details",
            *("--structured-outputs-config", '{"backend": "guidance"}'),
            *settings.extra_args,
        ]

    def _environment(self) -> dict[str, str]:
        """The key travels by environment: a command line can be read by every user of the host."""
        environment = dict(os.environ)
        environment["VLLM_API_KEY"] = self._secret
        environment["VLLM_NO_USAGE_STATS"] = "1"
        environment["HF_HUB_OFFLINE"] = "1"
        if self._config.engine.threads:
            environment["OMP_NUM_THREADS"] = str(self._config.engine.threads)
        if self._config.device_uuid.startswith(("GPU-", "MIG-")):
            environment["CUDA_VISIBLE_DEVICES"] = self._config.device_uuid
        return environment

    async def _until_healthy(self) -> None:
        session, process = self._open(), self._process
        if process is None:
            raise ValueError("vllm was not started")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_TIMEOUT_S):
                while process.returncode is None:
                    with contextlib.suppress(aiohttp.ClientError):
                        async with session.get(f"{self._base_url}/health") as response:
                            if response.status == 200:
                                return
                    await asyncio.sleep(0.25)
        code = process.returncode
        await self.stop()
        if code is None:
            raise ValueError(f"vllm was not ready within {START_TIMEOUT_S:g} s; see the log")
        raise ValueError(f"vllm ended with exit code {code} before it was ready; see the log")


def find_vllm() -> str:
    """The path of the program. Raises ``ValueError`` that says how to name it."""
    named = os.environ.get("BERTH_VLLM_BIN")
    if named:
        if os.access(named, os.X_OK):
            return named
        raise ValueError(f"BERTH_VLLM_BIN names {named}, which is no program")
    found = shutil.which("vllm")
    if found is None:
        raise ValueError("vllm is not on PATH; install it or set BERTH_VLLM_BIN to its program")
    return found


def _model_sampling(path: Path) -> dict[str, float]:
    """What ``generation_config.json`` recommends."""
    try:
        config = json.loads((path / "generation_config.json").read_bytes())
    except (OSError, ValueError):
        return {}
    names = ("temperature", "top_p", "top_k")
    return {name: config[name] for name in names if isinstance(config.get(name), int | float)}


def _tool_format(path: Path) -> ToolFormat | None:
    """None where the template knows no tools, or only vLLM finds it."""
    try:
        return tool_format(template_source(path))
    except (OSError, ValueError):
        return None


def _vocabulary(path: Path) -> Vocabulary | None:
    """None where the model is one file, whose tokenizer only vLLM reads."""
    file = path / "tokenizer.json"
    return Vocabulary(Tokenizer.from_file(str(file))) if file.is_file() else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
