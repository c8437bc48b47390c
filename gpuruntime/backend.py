"""What stands behind a door: the one interface of every engine, ours or another's.

The door (``gpuruntime.door``) owns HTTP, the queue and the counting; a backend turns one prompt into a stream of
deltas. ``engine.backend.NativeBackend`` and the classes of ``external`` implement it, and nothing else in Berth
knows which one runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from gpuruntime.protocol import Pace
from gpuruntime.tools.formats import ToolFormat

FinishReason = Literal["stop", "length", "abort", "error"]
Pooling = Literal["last", "mean"]


class BadPrompt(ValueError):
    """The request cannot be served as written; ``param`` names the field (HTTP 400)."""

    def __init__(self, message: str, param: str = "messages", code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class EngineFailed(RuntimeError):
    """The engine broke while it ran this request (HTTP 500, or an error frame once tokens were sent)."""


class EngineFull(EngineFailed):
    """The engine's own queue is at its limit (HTTP 503)."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to pick tokens. ``temperature`` 0 is greedy; ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 switch the filter off.

    The penalties follow OpenAI (presence, frequency: of the output) and CTRL (repetition: of prompt and output; 1 is
    off). ``logit_bias`` is added before everything else. Before ``min_tokens`` neither the end of the text nor
    ``stop_token_ids`` can be picked. ``logprobs`` asks for that many alternatives beside each picked token, 0 for the
    picked one alone; ``prompt_logprobs`` the same of the prompt's tokens. ``timeout_s`` after it entered the engine
    the request ends with the reason "abort" and what it has. ``special`` tokens are part of the text, by their names;
    others are not. ``grammar``: llguidance's, which the text follows to its end. ``pooling``: no text is wanted but the
    prompt's embedding, made of its last token's state or of the mean of all; ``max_tokens`` is then 0.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    timeout_s: float | None = None
    special: tuple[str, ...] = ()
    grammar: str | None = None
    pooling: Pooling | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token's natural log probability under the model's own distribution (temperature 1, no filter, no penalty).

    ``top``: the likeliest (token, logprob) pairs, likeliest first, as many as were asked for.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt ready to run.

    ``token_ids`` is None for an external engine, which tokenizes ``messages`` or ``text`` itself. ``salt`` separates
    the prefix caches of tenants and is part of every block's hash. ``text`` is set where the prompt was a plain text.
    ``thinking``: it ends inside the model's reasoning, where the answer goes on.
    """

    messages: tuple[dict[str, Any], ...]
    token_ids: tuple[int, ...] | None
    salt: bytes = b""
    text: str | None = None
    thinking: bool = False


@dataclass(frozen=True, slots=True)
class Timings:
    """Where one request's time went, from its entry into the engine. External engines leave unknown fields None."""

    queue_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    preemptions: int | None = None
    cached_tokens: int | None = None
    new_prompt_tokens: int | None = None
    ideal_s: float | None = None
    executed_ideal_s: float | None = None


@dataclass(slots=True)
class Delta:
    """One step's result for one request. Nobody changes one; frozen would cost 2 us a token on the door's thread.

    ``text`` holds only whole code points and no part of a stop string; it may be empty while ``new_tokens`` is 1
    (bytes held back). ``completion_tokens`` is the running total counted by the engine. The last delta of a stream
    has ``finish_reason`` and ``timings``; ``error`` is set when the reason is "error". ``token_ids`` are the step's
    tokens (several under speculation), ``logprobs`` one entry for each where they were asked for; ``prompt_logprobs``
    comes with the first delta, None for the prompt's first token. External engines leave all three empty.
    ``embedding``: fp32 of length 1, little-endian, in the one delta of a request for it.
    """

    text: str
    new_tokens: int
    completion_tokens: int
    prompt_tokens: int
    finish_reason: FinishReason | None = None
    timings: Timings | None = None
    error: str | None = None
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob | None, ...] = ()
    embedding: bytes = b""


@dataclass(frozen=True, slots=True)
class BackendStats:
    """A snapshot of the engine, taken without stopping it. ``*_total`` and ``paces`` only grow."""

    running: int = 0
    waiting: int = 0
    kv_blocks_total: int | None = None
    kv_blocks_free: int | None = None
    kv_blocks_cached: int | None = None
    prompt_tokens_total: int = 0
    completion_tokens_total: int = 0
    cached_tokens_total: int = 0
    preemptions_total: int = 0
    steps_total: int = 0
    busy_s_total: float = 0.0
    ideal_s_total: float = 0.0
    step_ms_ewma: float | None = None
    prefill_tokens_per_s: float | None = None
    paces: tuple[Pace, ...] = ()
    extra: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """What the backend is and can take, known once it is ready.

    ``refuses``: request fields, by their names in a body, that this engine cannot honour; ``vocab_size`` None: it
    does not say, and token ids are checked for their sign only. ``weights_bytes`` is counted after loading;
    ``tool_format``: how the model writes tool calls (None: ``tools`` are refused); ``thinks``: it marks its reasoning;
    ``pooling``: how its embeddings are made (None: there are none).
    ``predicted_weights_bytes``, and ``predicted_bytes`` of the whole process with all KV in use, were known before.
    """

    engine: str
    model: str
    max_model_len: int
    max_num_seqs: int
    kv_capacity_tokens: int | None
    weights_bytes: int | None
    dtype: str
    eos_token_ids: tuple[int, ...] = ()
    vocab_size: int | None = None
    refuses: frozenset[str] = frozenset()
    predicted_weights_bytes: int | None = None
    predicted_bytes: int | None = None
    tool_format: ToolFormat | None = None
    thinks: bool = False
    pooling: Pooling | None = None


class Backend(Protocol):
    """One engine. All methods are called on the door's event loop; none may block it."""

    async def start(self) -> BackendInfo:
        """Load the model and get ready. Raises a ``ValueError`` naming what is wrong with model or settings."""
        ...

    async def stop(self) -> None:
        """Abort what runs and free everything. Idempotent."""
        ...

    async def prepare(
        self, messages: list[dict[str, Any]], salt: bytes, tools: Sequence[dict[str, Any]] = ()
    ) -> Prompt:
        """Render and tokenize. Raises ``BadPrompt``. ``tools``: OpenAI's, which the model may call."""
        ...

    async def prepare_text(self, text: str | tuple[int, ...], salt: bytes, *, special_tokens: bool = True) -> Prompt:
        """A plain text, or its token ids as they are. ``special_tokens``: also those the tokenizer puts around it."""
        ...

    async def tokenize(self, source: str | list[dict[str, Any]], *, special_tokens: bool = True) -> tuple[int, ...]:
        """A text or rendered messages as token ids, of any length. Raises ``BadPrompt``."""
        ...

    async def detokenize(self, token_ids: Sequence[int]) -> str:
        """The text of these ids, special tokens included."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes that one token stands for, a special token's name included; empty where nobody knows."""
        ...

    def generate(self, request_id: str, prompt: Prompt, params: SamplingParams) -> AsyncIterator[Delta]:
        """Run one request. Closing the iterator aborts it within one step and frees all it held.

        A ``mailbox.Mailbox`` is the quick kind: its reader needs no task of its own.
        """
        ...

    def abort(self, request_id: str) -> bool:
        """Ends a request early whose deltas are still read, so that what it did is known.

        True: its last delta, with the reason "abort" and the timings, comes within a step. False: the engine has no
        such delta to give, and closing the iterator is what ends the request.
        """
        ...

    def stats(self) -> BackendStats: ...

    def default_sampling(self) -> dict[str, float]:
        """The model's own defaults (``generation_config.json``): any of temperature, top_p, top_k."""
        ...

    def alive(self) -> bool:
        """False once the engine cannot serve any more (a dead thread or child)."""
        ...
