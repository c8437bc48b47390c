"""The native engine behind a door: prompts in, deltas out, on the door's event loop."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from gpuruntime.backend import (
    BackendInfo,
    BackendStats,
    BadPrompt,
    Delta,
    EngineFailed,
    FinishReason,
    Prompt,
    SamplingParams,
)
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.core import StepOutput
from gpuruntime.engine.request import Clock, Request
from gpuruntime.engine.text import TextStream
from gpuruntime.engine.thread import Abort, EngineThread
from gpuruntime.loading.tokenizer import ChatTokenizer
from gpuruntime.models.config import read_json

SAMPLING_DEFAULTS = ("temperature", "top_p", "top_k")


@dataclass(slots=True)
class _Stream:
    """The loop's side of one running request."""

    key: int
    request_id: str
    prompt_tokens: int
    text: TextStream
    deltas: asyncio.Queue[Delta | BaseException] = field(default_factory=asyncio.Queue)
    completion_tokens: int = 0


class NativeBackend:
    """Implements ``gpuruntime.backend.Backend`` with the engine of this package."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._keys = itertools.count(1)
        self._streams: dict[int, _Stream] = {}
        self._thread: EngineThread | None = None
        self._tokenizer: ChatTokenizer | None = None
        self._info: BackendInfo | None = None
        self._failure: BaseException | None = None
        self._tokenizer_lock = asyncio.Lock()

    async def start(self) -> BackendInfo:
        """Loads tokenizer and model side by side."""
        self._config.validate()
        self._thread = EngineThread(self._config, self._deliver, self._broken)
        loading = asyncio.ensure_future(self._thread.start())
        reading = asyncio.to_thread(ChatTokenizer, self._config.model_path)
        engine, tokenizer = await asyncio.gather(loading, reading, return_exceptions=True)
        if isinstance(engine, BaseException) or isinstance(tokenizer, BaseException):
            await self.stop()
            raise engine if isinstance(engine, BaseException) else tokenizer  # type: ignore[misc]
        self._tokenizer = tokenizer
        self._info = BackendInfo(
            engine="native",
            model=self._config.model_name or self._config.model_path.resolve().name,
            max_model_len=engine.max_model_len,
            max_num_seqs=self._config.max_num_seqs,
            kv_capacity_tokens=engine.kv_capacity_tokens,
            weights_bytes=engine.weights_bytes,
            dtype=self._config.dtype,
            eos_token_ids=self._tokenizer.eos_token_ids,
        )
        return self._info

    async def stop(self) -> None:
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        await thread.stop()
        self._fail_all(EngineFailed("the engine was stopped"))

    async def prepare(self, messages: list[dict[str, Any]], salt: bytes) -> Prompt:
        """Renders and tokenizes on a worker thread, so that a long prompt does not hold up the streams."""
        if self._tokenizer is None or self._info is None:
            raise EngineFailed("the engine is not ready")
        async with self._tokenizer_lock:
            ids = await asyncio.to_thread(self._tokenizer.encode_chat, messages)
        prompt = Prompt(tuple(messages), ids, salt)
        self._check_size(len(ids), 1)
        return prompt

    def generate(self, request_id: str, prompt: Prompt, params: SamplingParams) -> AsyncIterator[Delta]:
        """Checks the size at once (``BadPrompt``); the request enters the engine when iteration begins."""
        if prompt.token_ids is None:
            raise BadPrompt("the native engine needs a tokenized prompt")
        self._check_size(len(prompt.token_ids), params.max_tokens)
        return self._generate(request_id, prompt.token_ids, prompt.salt, params)

    def abort(self, request_id: str) -> bool:
        found = [stream for stream in self._streams.values() if stream.request_id == request_id]
        # Callers choose the ids: under one that two of them chose, nothing says which one is meant.
        if self._thread is None or len(found) != 1:
            return False
        self._thread.send(Abort(found[0].key))
        return True

    def stats(self) -> BackendStats:
        return self._thread.stats if self._thread is not None else BackendStats()

    def default_sampling(self) -> dict[str, float]:
        path = self._config.model_path / "generation_config.json"
        if not path.is_file():
            return {}
        stored = read_json(path)
        return {name: float(value) for name in SAMPLING_DEFAULTS if (value := stored.get(name)) is not None}

    def alive(self) -> bool:
        return self._failure is None and self._thread is not None and self._thread.alive

    def audit(self) -> None:
        """Raises when KV blocks are lost; for tests and idle checks."""
        if self._thread is not None:
            self._thread.audit()

    async def _generate(
        self, request_id: str, token_ids: tuple[int, ...], salt: bytes, params: SamplingParams
    ) -> AsyncIterator[Delta]:
        if self._failure is not None or self._thread is None or self._tokenizer is None:
            raise EngineFailed(f"the engine is not running: {self._failure or 'stopped'}")
        thread = self._thread
        request = Request(
            key=next(self._keys),
            prompt_len=len(token_ids),
            tokens=list(token_ids),
            params=params,
            seed=self._seed(params),
            salt=salt,
            end_ids=frozenset() if params.ignore_eos else frozenset(self._tokenizer.eos_token_ids),
            clock=Clock(time.monotonic()),
        )
        stream = _Stream(request.key, request_id, len(token_ids), TextStream(self._tokenizer.tokenizer, params.stop))
        self._streams[request.key] = stream
        thread.send(request)
        try:
            while True:
                delta = await stream.deltas.get()
                if isinstance(delta, BaseException):
                    raise delta
                yield delta
                if delta.finish_reason is not None:
                    return
        finally:
            if self._streams.pop(request.key, None) is not None:
                thread.send(Abort(request.key))

    def _deliver(self, outputs: list[StepOutput]) -> None:
        """One step's outputs, on the event loop."""
        for output in outputs:
            stream = self._streams.get(output.key)
            if stream is None:
                continue
            delta = self._delta(stream, output)
            if delta is None:
                continue
            if delta.finish_reason is not None:
                del self._streams[output.key]
            stream.deltas.put_nowait(delta)

    def _delta(self, stream: _Stream, output: StepOutput) -> Delta | None:
        """The client's view of one output; None for tokens computed after a stop string was found."""
        was_stopped = stream.text.stopped
        text, new_tokens = "", 0
        if output.token is not None and not was_stopped:
            text, new_tokens = stream.text.push(output.token), 1
            stream.completion_tokens += 1
        reason = output.finish_reason
        if stream.text.stopped:
            if reason is None:
                # The timings come with the abort's own output, at most one step later.
                if not was_stopped and self._thread is not None:
                    self._thread.send(Abort(stream.key))
                if was_stopped:
                    return None
            else:
                reason = "stop"
        elif reason is not None:
            text += stream.text.finish()
        return self._as_delta(stream, text, new_tokens, reason, output)

    @staticmethod
    def _as_delta(
        stream: _Stream, text: str, new_tokens: int, reason: FinishReason | None, output: StepOutput
    ) -> Delta:
        return Delta(
            text=text,
            new_tokens=new_tokens,
            completion_tokens=stream.completion_tokens,
            prompt_tokens=stream.prompt_tokens,
            finish_reason=reason,
            timings=output.timings if reason is not None else None,
        )

    def _broken(self, error: BaseException) -> None:
        self._failure = error
        self._fail_all(EngineFailed(f"the engine failed: {type(error).__name__}: {error}"))

    def _fail_all(self, error: EngineFailed) -> None:
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.deltas.put_nowait(error)

    def _seed(self, params: SamplingParams) -> int:
        if params.seed is not None:
            return params.seed & ((1 << 64) - 1)
        if self._config.seed is not None:
            return self._config.seed
        return secrets.randbits(64)

    def _check_size(self, prompt_tokens: int, max_tokens: int) -> None:
        if self._info is None:
            raise EngineFailed("the engine is not ready")
        limit = min(self._info.max_model_len, self._info.kv_capacity_tokens or self._info.max_model_len)
        if prompt_tokens + 1 > limit:
            raise BadPrompt(
                f"the prompt has {prompt_tokens} tokens; this model's context is {limit} tokens, "
                "one of them for the answer",
                "messages",
                "context_length_exceeded",
            )
        if prompt_tokens + max_tokens > limit:
            raise BadPrompt(
                f"the prompt has {prompt_tokens} tokens and max_tokens is {max_tokens}, together "
                f"{prompt_tokens + max_tokens}; this model's context is {limit} tokens",
                "max_tokens",
                "context_length_exceeded",
            )
