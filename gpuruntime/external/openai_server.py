"""Any OpenAI-compatible server as a backend: one streamed request upstream for each of ours.

Tokens are counted by the server (``continuous_usage_stats`` where it knows it; else the last usage frame), never by
frames. What it does not say stays None.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from gpuruntime.backend import (
    BackendInfo,
    BackendStats,
    BadPrompt,
    Delta,
    EngineFailed,
    FinishReason,
    Prompt,
    SamplingParams,
    Timings,
)
from gpuruntime.external.openai_body import EXTENSIONS, SCORES, UNGUIDED, scores_of, upstream_body

READ_TIMEOUT_S = 300.0
MAX_FRAME_BYTES = 1 << 22
_FINISH: Mapping[str, FinishReason] = {"stop": "stop", "length": "length", "tool_calls": "stop", "abort": "abort"}


@dataclass(slots=True)
class _Totals:
    running: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    busy_s: float = 0.0
    busy_since_s: float = 0.0


@dataclass(slots=True)
class _Progress:
    """One request as the server reports it. ``held`` is the finish that waits for the last usage frame."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None
    finish: FinishReason | None = None
    started_s: float = field(default_factory=time.monotonic)
    first_s: float | None = None


class OpenAIServerBackend:
    """A server at ``base_url`` (``http://host:port``) that somebody else runs.

    ``extensions``: which of vLLM's fields beyond OpenAI's it knows; the others are refused by name, as are
    log probabilities, which OpenAI's shapes give without token ids.
    """

    engine = "openai"
    refuses_scores = SCORES

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        max_model_len: int = 4096,
        max_num_seqs: int = 64,
        token: str = "",
        default_sampling: dict[str, float] | None = None,
        extensions: frozenset[str] = frozenset(),
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._model = model
        self._max_model_len = max_model_len
        self._max_num_seqs = max_num_seqs
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._defaults = default_sampling or {}
        self._extensions = extensions
        self._session: aiohttp.ClientSession | None = None
        self._totals = _Totals()

    async def start(self) -> BackendInfo:
        """Raises ``ValueError`` when nothing answers or the server does not know the model."""
        session = self._open()
        try:
            async with session.get(f"{self._base_url}/v1/models") as response:
                listed = await response.json(content_type=None) if response.status == 200 else {}
                status = response.status
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ValueError(f"no OpenAI-compatible server answers at {self._base_url}: {error}") from error
        models = {model.get("id"): model for model in listed.get("data", [])}
        if self._model not in models:
            names = ", ".join(map(str, models)) or "none"
            raise ValueError(f"{self._base_url} (status {status}) does not serve {self._model}; it serves: {names}")
        length = models[self._model].get("max_model_len") or self._max_model_len
        return BackendInfo(
            engine=self.engine,
            model=self._model,
            max_model_len=int(length),
            max_num_seqs=self._max_num_seqs,
            kv_capacity_tokens=None,
            weights_bytes=None,
            dtype="unknown",
            refuses=(EXTENSIONS - self._extensions) | self.refuses_scores | UNGUIDED,
        )

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def prepare(
        self, messages: list[dict[str, Any]], salt: bytes, tools: Sequence[dict[str, Any]] = ()
    ) -> Prompt:
        return Prompt(messages=tuple(messages), token_ids=None, salt=salt, tools=tuple(tools))

    async def prepare_text(self, text: str | tuple[int, ...], salt: bytes, *, special_tokens: bool = True) -> Prompt:
        if not special_tokens:
            text = await self.tokenize(text, special_tokens=False) if isinstance(text, str) else text
        return Prompt((), None, salt, text) if isinstance(text, str) else Prompt((), text, salt)

    async def tokenize(self, source: str | list[dict[str, Any]], *, special_tokens: bool = True) -> tuple[int, ...]:
        """As vLLM offers it. Raises ``BadPrompt`` where the server does not."""
        name = "prompt" if isinstance(source, str) else "messages"
        asked: dict[str, Any] = {"model": self._model, name: source}
        if isinstance(source, str):
            asked["add_special_tokens"] = special_tokens
        return tuple((await self._ask("/tokenize", asked, name))["tokens"])

    async def detokenize(self, token_ids: Sequence[int]) -> str:
        asked = {"model": self._model, "tokens": list(token_ids)}
        return str((await self._ask("/detokenize", asked, "tokens"))["prompt"])

    def token_bytes(self, token: int) -> bytes:
        return b""

    async def _ask(self, path: str, body: dict[str, Any], param: str) -> dict[str, Any]:
        if self._session is None:
            raise EngineFailed("the engine is not running")
        try:
            async with self._session.post(f"{self._base_url}{path}", json=body) as response:
                if response.status == 404:
                    raise BadPrompt(f"the engine of this model offers no {path}", param, "unsupported_value")
                if response.status != 200:
                    raise await _refusal(response)
                answer: dict[str, Any] = await response.json(content_type=None)
                return answer
        except BadPrompt:
            raise
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise EngineFailed(f"the engine did not answer {path}: {str(error) or type(error).__name__}") from error

    def default_sampling(self) -> dict[str, float]:
        return self._defaults

    def alive(self) -> bool:
        return self._session is not None

    def stats(self) -> BackendStats:
        totals = self._totals
        busy_s = totals.busy_s + (time.monotonic() - totals.busy_since_s if totals.running else 0.0)
        return BackendStats(
            running=totals.running,
            prompt_tokens_total=totals.prompt_tokens,
            completion_tokens_total=totals.completion_tokens,
            cached_tokens_total=totals.cached_tokens,
            busy_s_total=busy_s,
        )

    async def generate(self, request_id: str, prompt: Prompt, params: SamplingParams) -> AsyncGenerator[Delta]:
        """Closing the iterator closes the connection, which is how such servers learn of an abort."""
        progress = _Progress()
        self._enter()
        try:
            async with self._post(request_id, prompt, params) as response:
                async for frame in _frames(response):
                    for delta in self._advance(progress, frame):
                        yield delta
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise EngineFailed(f"the connection to the engine broke: {str(error) or type(error).__name__}") from error
        finally:
            self._leave(progress)
        if progress.finish is None:
            raise EngineFailed("the engine ended the stream without a finish reason")
        yield _delta(progress, "", 0, last=True)

    def abort(self, request_id: str) -> bool:
        """A closed connection is the only way to tell such a server, and then it tells nothing more."""
        return False

    @contextlib.asynccontextmanager
    async def _post(
        self, request_id: str, prompt: Prompt, params: SamplingParams
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            raise EngineFailed("the engine is not running")
        url = f"{self._base_url}/v1/{'chat/completions' if prompt.messages else 'completions'}"
        body = upstream_body(self._model, prompt, params)
        response = await self._session.post(url, json=body, headers={"x-request-id": request_id})
        try:
            if response.status != 200:
                raise await _refusal(response)
            yield response
        finally:
            response.close()  # not release(): an unread rest must end the generation upstream

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, connect=5, sock_read=READ_TIMEOUT_S),
                read_bufsize=MAX_FRAME_BYTES,
            )
        return self._session

    def _advance(self, progress: _Progress, frame: dict[str, Any]) -> list[Delta]:
        if error := frame.get("error"):
            raise EngineFailed(str(error.get("message", error)) if isinstance(error, dict) else str(error))
        before = progress.completion_tokens
        usage = frame.get("usage")
        if isinstance(usage, dict):
            self._count(progress, usage)
        choices = frame.get("choices") or [{}]
        text = (choices[0].get("delta") or {}).get("content") or choices[0].get("text") or ""
        scores = scores_of(choices[0].get("logprobs"))
        if reason := choices[0].get("finish_reason"):
            progress.finish = _FINISH.get(reason, "stop")
        rise = progress.completion_tokens - before
        if not text and not rise and not scores:
            return []
        if progress.first_s is None:
            progress.first_s = time.monotonic()
        return [replace(_delta(progress, text, rise), logprobs=scores)]

    def _count(self, progress: _Progress, usage: dict[str, Any]) -> None:
        progress.prompt_tokens = max(progress.prompt_tokens, int(usage.get("prompt_tokens") or 0))
        completion = int(usage.get("completion_tokens") or 0)
        self._totals.completion_tokens += max(0, completion - progress.completion_tokens)
        progress.completion_tokens = max(progress.completion_tokens, completion)
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        if cached is not None:
            progress.cached_tokens = int(cached)

    def _enter(self) -> None:
        if not self._totals.running:
            self._totals.busy_since_s = time.monotonic()
        self._totals.running += 1

    def _leave(self, progress: _Progress) -> None:
        totals = self._totals
        totals.running -= 1
        if not totals.running:
            totals.busy_s += time.monotonic() - totals.busy_since_s
        totals.prompt_tokens += progress.prompt_tokens
        totals.cached_tokens += progress.cached_tokens or 0


def _delta(progress: _Progress, text: str, new_tokens: int, *, last: bool = False) -> Delta:
    timings = None
    if last:
        now = time.monotonic()
        first = now if progress.first_s is None else progress.first_s
        timings = Timings(
            prefill_ms=None,
            decode_ms=round(1000 * (now - first), 3),
            cached_tokens=progress.cached_tokens,
        )
    return Delta(
        text=text,
        new_tokens=new_tokens,
        completion_tokens=progress.completion_tokens,
        prompt_tokens=progress.prompt_tokens,
        finish_reason=progress.finish if last else None,
        timings=timings,
    )


async def _frames(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The JSON of each ``data:`` line until ``[DONE]`` or the end."""
    async for line in response.content:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        try:
            frame = json.loads(data)
        except ValueError as error:
            raise EngineFailed("the engine sent a frame that is not JSON") from error
        if isinstance(frame, dict):
            yield frame


async def _refusal(response: aiohttp.ClientResponse) -> Exception:
    """A 400 is the client's to know; anything else is the engine's failure."""
    raw = await response.read()
    try:
        answer = json.loads(raw)
        error = answer.get("error", answer)
        message, param = str(error.get("message") or answer), error.get("param")
    except (ValueError, AttributeError):
        message, param = raw[:500].decode("utf-8", "replace"), None
    if response.status in (400, 413, 422):
        code = "context_length_exceeded" if "context length" in message else "invalid_value"
        return BadPrompt(message, param or "messages", code)
    return EngineFailed(f"the engine answered {response.status}: {message}")
