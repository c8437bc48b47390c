"""OpenAI's contract where gateway and door must agree on it: the bodies of requests and the error object.

The fields are OpenAI's and, where it has none, vLLM's. ``openai_checks`` holds the ranges. A known field that Berth
cannot honour is refused by name; one that nobody here knows is ignored (and counted by the gateway).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

MAX_BODY_BYTES = 8 << 20


class BadBody(ValueError):
    """A request that cannot be read; ``param`` names the field, as ``messages[0].role`` (HTTP 400)."""

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ContentPart(msgspec.Struct):
    """Of an assistant's message also a part of type ``refusal``, which is text as well."""

    type: str
    text: str | None = None
    refusal: str | None = None


class CalledFunction(msgspec.Struct):
    """``arguments``: JSON, as the model wrote it."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct):
    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class Message(msgspec.Struct):
    """``audio`` and ``function_call`` are known to refuse; ``refusal`` is what an assistant said in content's place."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    audio: Any = None
    function_call: Any = None


class Function(msgspec.Struct, omit_defaults=True):
    """``parameters``: a JSON schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct):
    function: Function
    type: Literal["function"]


class NamedFunction(msgspec.Struct):
    name: str


class NamedTool(msgspec.Struct):
    function: NamedFunction
    type: Literal["function"]


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class SamplingBody(msgspec.Struct, kw_only=True):
    """What chat and text completions have in common. None: not said.

    ``service_tier`` picks a class of the contract, which is the gateway's to do; a door only repeats it.
    """

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    seed: int | None = None
    n: int | None = None
    prompt_logprobs: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = None
    structured_outputs: dict[str, Any] | None = None

    @property
    def choices(self) -> int:
        return 1 if self.n is None else self.n

    @property
    def stops(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.continuous_usage_stats)


class ChatBody(SamplingBody, kw_only=True):
    """``max_completion_tokens`` is the newer name of ``max_tokens`` and wins.

    ``prompt_cache_key``: requests with the same one go to the same replica while it has room. ``metadata`` and
    ``safety_identifier`` change no answer and are kept nowhere. The last fields are known to refuse
    (``openai_refusals``).
    """

    messages: list[Message]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    metadata: dict[str, str] | None = None
    functions: list[Any] | None = None
    function_call: Any = None
    modalities: list[str] | None = None
    audio: dict[str, Any] | None = None
    moderation: Any = None
    prediction: Any = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    reasoning_effort: str | None = None
    store: bool | None = None
    verbosity: str | None = None
    web_search_options: Any = None

    @property
    def most_tokens(self) -> int | None:
        """None when the client left it to the deployment."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def logprob_count(self) -> int | None:
        """How many alternatives beside each token; None without log probabilities."""
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionBody(SamplingBody, kw_only=True):
    """``prompt``: a text, texts, token ids, or lists of token ids. ``suffix`` and ``best_of`` are known to refuse."""

    prompt: str | list[str | int | list[int]]
    echo: bool | None = None
    logprobs: int | None = None
    suffix: str | None = None
    best_of: int | None = None
    add_special_tokens: bool | None = None

    @property
    def prompts(self) -> list[str | tuple[int, ...]]:
        """One entry a prompt; a text or its token ids."""
        return _listed(self.prompt)

    @property
    def most_tokens(self) -> int:
        """OpenAI's default for text completions is 16."""
        return 16 if self.max_tokens is None else self.max_tokens

    @property
    def logprob_count(self) -> int | None:
        return self.logprobs


class EmbeddingBody(msgspec.Struct, kw_only=True):
    """``input``: a text, texts, token ids, or lists of token ids. ``dimensions`` is known to refuse.

    ``stream`` is the gateway's alone: the door then answers in events, as it does for texts.
    """

    model: str
    input: str | list[str | int | list[int]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    user: str | None = None
    stream: bool | None = None

    @property
    def inputs(self) -> list[str | tuple[int, ...]]:
        """One entry an input; a text or its token ids."""
        return _listed(self.input)


class TokenizeBody(msgspec.Struct, kw_only=True):
    """vLLM's: either ``prompt`` or ``messages``."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(msgspec.Struct, kw_only=True):
    model: str | None = None
    tokens: list[int]


def _listed(given: str | list[str | int | list[int]]) -> list[str | tuple[int, ...]]:
    """One text, one list of token ids, or several of either, as several."""
    if isinstance(given, str):
        return [given]
    if given and isinstance(given[0], int):
        return [tuple(item for item in given if isinstance(item, int))]
    return [item if isinstance(item, str) else tuple(item) for item in given if not isinstance(item, int)]


def error_object(status: int, message: str, param: str | None, code: str | None, type: str | None = None) -> bytes:
    """``{"error": {...}}`` with all four keys; the type follows from the status unless given."""
    kind = _error_type(status) if type is None else type
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def _error_type(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 429:
        return "rate_limit_error"
    if status == 503:
        return "overloaded_error"
    return "server_error" if status >= 500 else "invalid_request_error"
