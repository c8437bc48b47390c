"""The engine without a server: ``LLM(path).generate(...)``.

    from gpuruntime.backend import SamplingParams
    from gpuruntime.llm import LLM

    with LLM("models/SmolLM2-135M-Instruct") as llm:
        for output in llm.generate(["The sky is", "The sea is"], SamplingParams(max_tokens=20, temperature=0)):
            print(output.text)

The same core, checks and text as behind the door; only who calls ``EngineCore.step`` differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuruntime.backend import BadPrompt, Delta, FinishReason, SamplingParams, Timings, TokenLogprob
from gpuruntime.engine.answer import Answer
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.intake import Intake, model_sampling
from gpuruntime.engine.loader import LoadedEngine, load_engine
from gpuruntime.engine.request import Request
from gpuruntime.loading.pooling import model_pooling
from gpuruntime.loading.tokenizer import ChatTokenizer

DEFAULT_MAX_TOKENS = 256

Prompts = str | Sequence[str] | Sequence[Sequence[int]]
Params = SamplingParams | Sequence[SamplingParams] | None
Message = dict[str, Any]


@dataclass(slots=True)
class Output:
    """One prompt's answer. ``logprobs`` and ``prompt_logprobs`` are filled where the parameters ask for them."""

    prompt_token_ids: tuple[int, ...]
    text: str
    token_ids: list[int]
    finish_reason: FinishReason | None
    logprobs: list[TokenLogprob]
    prompt_logprobs: list[TokenLogprob | None]
    timings: Timings | None = None
    embedding: bytes = b""


class LLM:
    """One loaded model; use it from one thread. Settings are the fields of ``engine.config.EngineConfig``."""

    def __init__(self, model_path: str | Path, **settings: Any) -> None:
        """Loads the model. Raises ``ValueError`` naming what is wrong with its files or the settings."""
        self._config = _config(Path(model_path), settings)
        self._engine: LoadedEngine | None = load_engine(self._config)
        self._tokenizer = ChatTokenizer(self._config.model_path)
        self._intake = Intake(self._engine.limits, self._tokenizer.eos_token_ids, self._config.seed)

    def generate(self, prompts: Prompts, params: Params = None) -> list[Output]:
        """One output for each prompt, in their order; a text is encoded as it stands, without a chat template.

        ``params``: for all, or one for each; without it the model's own sampling and at most 256 tokens.
        Raises ``BadPrompt`` before anything runs when one of them cannot be served.
        """
        given: list[str | Sequence[int]] = [prompts] if isinstance(prompts, str) else list(prompts)
        return self._run([self._encode(prompt) for prompt in given], params)

    def chat(self, messages: Sequence[Message] | Sequence[Sequence[Message]], params: Params = None) -> list[Output]:
        """Answers a conversation, or several: each a list of messages with ``role`` and ``content``."""
        several = [messages] if not messages or isinstance(messages[0], dict) else messages
        return self._run([self._tokenizer.encode_chat(list(one)) for one in several], params)  # type: ignore[arg-type]

    def embed(self, prompts: Prompts) -> NDArray[np.float32]:
        """``[N, hidden]``, a row of length 1 for each prompt. Raises ``ValueError`` for a model that has none."""
        pooling = model_pooling(self._config.model_path)
        if pooling is None:
            raise ValueError(f"{self._config.model_path}: how this model's embeddings are made is not covered")
        given: list[str | Sequence[int]] = [prompts] if isinstance(prompts, str) else list(prompts)
        outputs = self._run([self._encode(prompt) for prompt in given], SamplingParams(0, pooling=pooling))
        return np.stack([np.frombuffer(output.embedding, dtype="<f4") for output in outputs])

    def close(self) -> None:
        """Gives the memory back. Idempotent; the object is of no use afterwards."""
        self._engine = None

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _encode(self, prompt: str | Sequence[int]) -> tuple[int, ...]:
        if isinstance(prompt, str):
            return tuple(self._tokenizer.tokenizer.encode(prompt).ids)
        return tuple(prompt)

    def _run(self, prompts: Sequence[tuple[int, ...]], params: Params) -> list[Output]:
        if self._engine is None:
            raise RuntimeError("this LLM was closed")
        wanted = self._params_for(prompts, params)
        for index, (prompt, one) in enumerate(zip(prompts, wanted, strict=True)):
            try:
                self._intake.check(prompt, one, present=0)
            except BadPrompt as error:
                raise BadPrompt(f"prompt {index}: {error}", error.param, error.code) from error
        requests = [self._intake.request(prompt, one, b"") for prompt, one in zip(prompts, wanted, strict=True)]
        outputs = [Output(prompt, "", [], None, [], []) for prompt in prompts]
        self._drive(self._engine, requests, outputs)
        return outputs

    def _drive(self, engine: LoadedEngine, requests: Sequence[Request], outputs: Sequence[Output]) -> None:
        """Steps until every request has ended; whatever interrupts it leaves nothing behind in the engine."""
        core = engine.core
        running = {
            request.key: (
                output,
                Answer(request.prompt_len, self._tokenizer.tokenizer, request.params.stop, request.params.special),
            )
            for request, output in zip(requests, outputs, strict=True)
        }
        try:
            for request in requests:
                core.add(request)
            while core.busy:
                engine.governor.watch()
                produced = core.step()
                for step_output in produced:
                    output, answer = running[step_output.key]
                    _add(output, answer.take(step_output))
                    if answer.stopped and (ended := core.abort(step_output.key)) is not None:
                        produced.append(ended)
        finally:
            for request in requests:
                core.abort(request.key)

    def _params_for(self, prompts: Sequence[tuple[int, ...]], params: Params) -> Sequence[SamplingParams]:
        if isinstance(params, SamplingParams):
            return [params] * len(prompts)
        if params is None:
            return [self._default_params(len(prompt)) for prompt in prompts]
        if len(params) != len(prompts):
            raise ValueError(f"{len(params)} sampling parameters for {len(prompts)} prompts: give one, or one for each")
        return params

    def _default_params(self, prompt_tokens: int) -> SamplingParams:
        defaults: dict[str, Any] = model_sampling(self._config.model_path)
        if "top_k" in defaults:
            defaults["top_k"] = max(0, int(defaults["top_k"]))
        room = self._intake.limits.context - prompt_tokens
        return SamplingParams(max_tokens=max(1, min(DEFAULT_MAX_TOKENS, room)), **defaults)


def _add(output: Output, delta: Delta | None) -> None:
    if delta is None:
        return
    output.text += delta.text
    output.token_ids += delta.token_ids
    output.logprobs += delta.logprobs
    output.prompt_logprobs += delta.prompt_logprobs
    output.finish_reason = delta.finish_reason
    output.timings = delta.timings
    output.embedding = delta.embedding


def _config(model_path: Path, settings: dict[str, Any]) -> EngineConfig:
    known = {field.name for field in fields(EngineConfig)} - {"model_path"}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise ValueError(f"unknown settings {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    paths = {name: Path(settings[name]) for name in ("draft_model_path", "cache_dir") if settings.get(name)}
    return EngineConfig(model_path, **{**settings, **paths})
