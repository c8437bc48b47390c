"""The native engine behind a door: prompts in, deltas out, on the door's event loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpuruntime.backend import (
    BackendInfo,
    BackendStats,
    BadPrompt,
    EngineFailed,
    Prompt,
    SamplingParams,
)
from gpuruntime.engine.answer import Answer
from gpuruntime.engine.config import EngineConfig, runs_apart
from gpuruntime.engine.core import StepOutput
from gpuruntime.engine.intake import Intake, Limits, model_sampling
from gpuruntime.engine.loop import Abort, Command
from gpuruntime.loading.pooling import model_pooling
from gpuruntime.loading.tokenizer import ChatTokenizer
from gpuruntime.loading.vocabulary import Vocabulary
from gpuruntime.mailbox import Mailbox
from gpuruntime.modelinfo import MemoryNeeds, memory_needs, read_model


@dataclass(slots=True)
class _Stream:
    """The loop's side of one running request."""

    key: int
    request_id: str
    answer: Answer
    deltas: Mailbox


class Ready(Protocol):
    """What is known of an engine once its model is loaded."""

    @property
    def limits(self) -> Limits: ...
    @property
    def weights_bytes(self) -> int: ...


class Engine(Protocol):
    """Where the steps run: ``engine.thread`` or ``engine.process``. Every method is called on the event loop."""

    @property
    def stats(self) -> BackendStats: ...
    @property
    def alive(self) -> bool: ...
    async def start(self) -> Ready: ...
    async def stop(self) -> None: ...
    def send(self, command: Command) -> None: ...
    def audit(self) -> None: ...


class NativeBackend:
    """Implements ``gpuruntime.backend.Backend`` with the engine of this package."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._streams: dict[int, _Stream] = {}
        self._engine: Engine | None = None
        self._tokenizer: ChatTokenizer | None = None
        self._vocabulary: Vocabulary | None = None
        self._intake: Intake | None = None
        self._failure: BaseException | None = None
        self._tokenizer_lock = asyncio.Lock()

    async def start(self) -> BackendInfo:
        """Loads tokenizer and model side by side."""
        self._config.validate()
        self._engine = self._make_engine()
        loading = asyncio.ensure_future(self._engine.start())
        reading = asyncio.to_thread(ChatTokenizer, self._config.model_path)
        engine, tokenizer = await asyncio.gather(loading, reading, return_exceptions=True)
        if isinstance(engine, BaseException) or isinstance(tokenizer, BaseException):
            await self.stop()
            raise engine if isinstance(engine, BaseException) else tokenizer  # type: ignore[misc]
        self._tokenizer = tokenizer
        self._vocabulary = await asyncio.to_thread(Vocabulary, tokenizer.tokenizer)
        self._intake = Intake(engine.limits, tokenizer.eos_token_ids, self._config.seed)
        # A full collection would walk torch's 180,000 objects and stop all streams for some 0.2 s.
        gc.freeze()
        needs = self._predicted()
        return BackendInfo(
            engine="native",
            model=self._config.model_name or self._config.model_path.resolve().name,
            max_model_len=engine.limits.max_model_len,
            max_num_seqs=self._config.max_num_seqs,
            kv_capacity_tokens=engine.limits.kv_capacity_tokens,
            weights_bytes=engine.weights_bytes,
            dtype=self._config.dtype,
            eos_token_ids=tokenizer.eos_token_ids,
            vocab_size=engine.limits.vocab_size,
            refuses=frozenset() if tokenizer.tool_format is not None else frozenset({"tools"}),
            tool_format=tokenizer.tool_format,
            thinks=tokenizer.thinks,
            pooling=model_pooling(self._config.model_path),
            resumes=True,
            predicted_weights_bytes=needs.weights_bytes if needs else None,
            predicted_bytes=needs.total_bytes if needs else None,
        )

    def _make_engine(self) -> Engine:
        """Only the chosen one's modules are imported: beside a process this one needs no torch."""
        if runs_apart(self._config):
            from gpuruntime.engine.process import EngineProcess

            return EngineProcess(self._config, self._deliver, self._broken)
        from gpuruntime.engine.thread import EngineThread

        return EngineThread(self._config, self._deliver, self._broken)

    def _predicted(self) -> MemoryNeeds | None:
        """What the headers promised; None where they cannot: of a draft model, several ranks, a longer context."""
        config = self._config
        if config.draft_model_path is not None or config.tensor_parallel > 1:
            return None
        try:
            return memory_needs(
                read_model(config.model_path),
                config.dtype,
                config.max_model_len,
                config.max_num_seqs,
                config.kv_bytes,
                max_num_batched_tokens=config.max_num_batched_tokens,
                kv_dtype=config.kv_dtype,
            )
        except ValueError:
            return None

    async def stop(self) -> None:
        if self._engine is None:
            return
        engine, self._engine = self._engine, None
        await engine.stop()
        gc.unfreeze()
        self._fail_all(EngineFailed("the engine was stopped"))

    async def prepare(
        self, messages: list[dict[str, Any]], salt: bytes, tools: Sequence[dict[str, Any]] = ()
    ) -> Prompt:
        tokenizer, intake = self._running()
        ids = await self.tokenize(messages, tools=tools)
        intake.check_size(len(ids), 1)
        return Prompt(tuple(messages), ids, salt, thinking=tokenizer.ends_thinking(ids))

    async def prepare_text(self, text: str | tuple[int, ...], salt: bytes, *, special_tokens: bool = True) -> Prompt:
        ids = await self.tokenize(text, special_tokens=special_tokens) if isinstance(text, str) else text
        self._running()[1].check_size(len(ids), 1)
        return Prompt((), ids, salt, text if isinstance(text, str) else None)

    async def tokenize(
        self,
        source: str | list[dict[str, Any]],
        *,
        special_tokens: bool = True,
        tools: Sequence[dict[str, Any]] = (),
    ) -> tuple[int, ...]:
        """Renders and tokenizes on a worker thread, so that a long prompt does not hold up the streams."""
        tokenizer = self._running()[0]
        async with self._tokenizer_lock:
            if not isinstance(source, str):
                return await asyncio.to_thread(tokenizer.encode_chat, source, tools)
            encoding = await asyncio.to_thread(tokenizer.tokenizer.encode, source, add_special_tokens=special_tokens)
            return tuple(encoding.ids)

    async def detokenize(self, token_ids: Sequence[int]) -> str:
        tokenizer = self._running()[0].tokenizer
        async with self._tokenizer_lock:
            return str(await asyncio.to_thread(tokenizer.decode, list(token_ids), skip_special_tokens=False))

    def token_bytes(self, token: int) -> bytes:
        return self._vocabulary.token_bytes(token) if self._vocabulary is not None else b""

    def generate(self, request_id: str, prompt: Prompt, params: SamplingParams) -> Mailbox:
        """Checks the request (``BadPrompt``, ``EngineFull``); it is in the engine when this returns."""
        tokenizer, intake = self._running()
        engine, token_ids = self._engine, prompt.token_ids
        if token_ids is None:
            raise BadPrompt("the native engine needs a tokenized prompt")
        intake.check(token_ids, params, present=len(self._streams), answered=prompt.answered)
        if self._failure is not None or engine is None:
            raise EngineFailed(f"the engine is not running: {self._failure or 'stopped'}")
        request = intake.request(token_ids, params, prompt.salt, prompt.answered)
        answer = Answer(len(token_ids), tokenizer.tokenizer, params.stop, params.special)
        deltas = Mailbox(lambda: self._close(request.key))
        if prompt.answered:
            deltas.put(answer.replay(prompt.answered))
        if answer.stopped:  # the engine was told so, and died before it could say what it had cost
            deltas.put(answer.stop())
            return deltas
        engine.send(request)  # first, for it raises what cannot travel; outputs come later, on this same loop
        self._streams[request.key] = _Stream(request.key, request_id, answer, deltas)
        return deltas

    def abort(self, request_id: str) -> bool:
        found = [stream for stream in self._streams.values() if stream.request_id == request_id]
        # Callers choose the ids: under one that two of them chose, nothing says which one is meant.
        if self._engine is None or len(found) != 1:
            return False
        self._engine.send(Abort(found[0].key))
        return True

    def stats(self) -> BackendStats:
        return self._engine.stats if self._engine is not None else BackendStats()

    def default_sampling(self) -> dict[str, float]:
        return model_sampling(self._config.model_path)

    def alive(self) -> bool:
        return self._failure is None and self._engine is not None and self._engine.alive

    def audit(self) -> None:
        """Raises when KV blocks are lost; for tests and idle checks."""
        if self._engine is not None:
            self._engine.audit()

    def _running(self) -> tuple[ChatTokenizer, Intake]:
        if self._tokenizer is None or self._intake is None:
            raise EngineFailed("the engine is not ready")
        return self._tokenizer, self._intake

    def _close(self, key: int) -> None:
        """Its reader left."""
        if self._streams.pop(key, None) is not None and self._engine is not None:
            self._engine.send(Abort(key))

    def _deliver(self, outputs: list[StepOutput]) -> None:
        """One step's outputs, on the event loop."""
        for output in outputs:
            stream = self._streams.get(output.key)
            if stream is None:
                continue
            was_stopped = stream.answer.stopped
            delta = stream.answer.take(output)
            if delta is None:
                continue
            if delta.finish_reason is not None:
                del self._streams[output.key]
            elif stream.answer.stopped and not was_stopped and self._engine is not None:
                # The timings come with the abort's own output, at most one step later.
                self._engine.send(Abort(output.key))
            stream.deltas.put(delta)

    def _broken(self, error: BaseException) -> None:
        self._failure = error
        self._fail_all(EngineFailed(f"the engine failed: {type(error).__name__}: {error}"))

    def _fail_all(self, error: EngineFailed) -> None:
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.deltas.fail(error)
