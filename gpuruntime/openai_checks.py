"""Reads the bodies of ``openai_api``: every type and range, each error naming its field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from gpuruntime.openai_api import (
    BadBody,
    ChatBody,
    CompletionBody,
    DetokenizeBody,
    EmbeddingBody,
    Message,
    NamedTool,
    SamplingBody,
    TokenizeBody,
)
from gpuruntime.openai_depth import check_depth
from gpuruntime.openai_refusals import CHAT, check_offered, refused

MAX_STOPS = 4
MAX_CHOICES = 16
MAX_PROMPTS = 128
MAX_LOGPROBS = 20
MAX_BIASES = 1024
MAX_STOP_IDS = 128
MAX_TOOLS = 128
MAX_INPUTS = 2048
MAX_METADATA, MAX_METADATA_KEY, MAX_METADATA_VALUE = 16, 64, 512

_Body = TypeVar("_Body", ChatBody, CompletionBody, EmbeddingBody, TokenizeBody, DetokenizeBody)
_chat = msgspec.json.Decoder(ChatBody)
_completion = msgspec.json.Decoder(CompletionBody)
_embedding = msgspec.json.Decoder(EmbeddingBody)
_tokenize = msgspec.json.Decoder(TokenizeBody)
_detokenize = msgspec.json.Decoder(DetokenizeBody)
_PATH = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"missing required field `(\w+)`")
_INTEGER = re.compile(r"-?\d{1,18}")
_FUNCTION = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def decode_chat(body: bytes) -> ChatBody:
    """The body with every type and range checked; unknown fields are ignored. Raises ``BadBody``."""
    chat = _decode(_chat, body)
    check_depth(chat)
    _check_ranges(chat)
    _check_chat(chat)
    return chat


def decode_completion(body: bytes) -> CompletionBody:
    """As ``decode_chat``, for ``/v1/completions``."""
    completion = _decode(_completion, body)
    check_depth(completion)
    _check_ranges(completion)
    _check_completion(completion)
    return completion


def decode_embedding(body: bytes) -> EmbeddingBody:
    """As ``decode_chat``, for ``/v1/embeddings``."""
    asked = _decode(_embedding, body)
    _check_texts("input", asked.input, asked.inputs)
    if len(asked.inputs) > MAX_INPUTS:
        raise BadBody(f"Invalid 'input': {len(asked.inputs)} inputs; at most {MAX_INPUTS} are allowed.", "input")
    if asked.dimensions is not None:
        raise refused("dimensions", "embeddings are as long as the model makes them")
    return asked


def decode_tokenize(body: bytes) -> TokenizeBody:
    asked = _decode(_tokenize, body)
    if (asked.prompt is None) == (asked.messages is None):
        raise BadBody("Give either 'prompt' or 'messages'.", "prompt", "missing_required_parameter")
    if asked.add_generation_prompt is False:
        raise refused("add_generation_prompt", "it is always added")
    if asked.messages is not None and asked.add_special_tokens:
        raise refused("add_special_tokens", "a chat template adds its own")
    return asked


def decode_detokenize(body: bytes) -> DetokenizeBody:
    return _decode(_detokenize, body)


def check_ids(name: str, ids: Sequence[int], vocab_size: int | None) -> None:
    """Token ids against the vocabulary, None where the engine does not say how large it is."""
    for at, token in enumerate(ids):
        if token < 0 or (vocab_size is not None and token >= vocab_size):
            limit = "negative" if vocab_size is None else f"not in the vocabulary of {vocab_size} tokens"
            raise BadBody(f"Invalid '{name}': the token id {token} (number {at}) is {limit}.", name)


def biases(body: SamplingBody) -> tuple[tuple[int, float], ...]:
    """``logit_bias`` with its keys as the integers they must be."""
    return tuple((int(key), value) for key, value in (body.logit_bias or {}).items())


# --- Types ------------------------------------------------------------------------------------------------------


def _decode(decoder: msgspec.json.Decoder[_Body], body: bytes) -> _Body:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(error, body) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"The body is not valid JSON: {error}", code="invalid_json") from error


def _invalid(error: msgspec.ValidationError, body: bytes) -> BadBody:
    text = str(error)
    found = _PATH.search(text)
    param = found.group(1) if found else ""
    if param.startswith("messages[...]"):
        param = param.replace("[...]", f"[{_bad_message(body)}]", 1)
    param = param.replace("[...]", "")
    if missing := _MISSING.search(text):
        param = f"{param}.{missing.group(1)}" if param else missing.group(1)
        return BadBody(f"Missing required field '{param}'.", param, "missing_required_parameter")
    what = _PATH.sub("", text)
    return BadBody(f"Invalid '{param}': {what}." if param else f"{what}.", param or None, "invalid_type")


class _RawMessages(msgspec.Struct):
    messages: list[msgspec.Raw]


def _bad_message(body: bytes) -> int:
    """The index of the first message that does not decode; msgspec's paths leave indices out."""
    raws = msgspec.json.decode(body, type=_RawMessages).messages
    for index, raw in enumerate(raws):
        try:
            msgspec.json.decode(raw, type=Message)
        except msgspec.ValidationError:
            return index
    return 0


# --- Ranges -----------------------------------------------------------------------------------------------------

_RANGES: tuple[tuple[str, float, float], ...] = (
    ("max_completion_tokens", 1, 1 << 31),
    ("temperature", 0.0, 2.0),
    ("top_p", 0.0, 1.0),
    ("top_k", -1, 1 << 20),
    ("min_p", 0.0, 1.0),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
    ("repetition_penalty", 0.0, 10.0),
    ("min_tokens", 0, 1 << 31),
    ("seed", -(1 << 63), (1 << 63) - 1),
    ("n", 1, MAX_CHOICES),
    ("top_logprobs", 0, MAX_LOGPROBS),
    ("prompt_logprobs", 0, MAX_LOGPROBS),
)


def _check_ranges(body: ChatBody | CompletionBody) -> None:
    for name, low, high in _RANGES:
        _between(name, getattr(body, name, None), low, high)
    least = 0 if isinstance(body, CompletionBody) and body.echo else 1
    _between("max_tokens", body.max_tokens, least, 1 << 31)
    for name in ("top_p", "repetition_penalty"):
        if getattr(body, name) == 0:
            raise BadBody(f"Invalid '{name}': it must be above 0.", name)
    most = body.most_tokens
    if body.min_tokens and most is not None and body.min_tokens > most:
        text = f"Invalid 'min_tokens': {body.min_tokens} is more than the {most} of max_tokens."
        raise BadBody(text, "min_tokens")
    _check_stops(body)
    _check_biases(body)
    _check_structure(body)


def _between(name: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        raise BadBody(f"Invalid '{name}': {value} is out of range; it must be between {low} and {high}.", name)


def _check_stops(body: SamplingBody) -> None:
    stops = body.stops
    if len(stops) > MAX_STOPS:
        raise BadBody(f"Invalid 'stop': {len(stops)} strings; at most {MAX_STOPS} are allowed.", "stop")
    if any(not stop for stop in stops):
        raise BadBody("Invalid 'stop': an empty string would stop at once.", "stop")
    ids = body.stop_token_ids or ()
    if len(ids) > MAX_STOP_IDS:
        text = f"Invalid 'stop_token_ids': {len(ids)} ids; at most {MAX_STOP_IDS} are allowed."
        raise BadBody(text, "stop_token_ids")
    check_ids("stop_token_ids", ids, None)


def _check_biases(body: SamplingBody) -> None:
    given = body.logit_bias or {}
    if len(given) > MAX_BIASES:
        raise BadBody(f"Invalid 'logit_bias': {len(given)} entries; at most {MAX_BIASES} are allowed.", "logit_bias")
    for key, value in given.items():
        if not _INTEGER.fullmatch(key):
            raise BadBody(f"Invalid 'logit_bias': the key {key[:40]!r} is no token id.", "logit_bias")
        if not -100 <= value <= 100:
            text = f"Invalid 'logit_bias': {value} for token {key} is out of range; it must be between -100 and 100."
            raise BadBody(text, "logit_bias")
    check_ids("logit_bias", [int(key) for key in given], None)


_STRUCTURES: dict[str, type | tuple[type, ...]] = {
    "json": (dict, bool, str),
    "json_object": bool,
    "regex": str,
    "grammar": str,
    "choice": list,
}


def _check_structure(body: SamplingBody) -> None:
    """vLLM's field: exactly one of the kinds. Whether it compiles is the door's to say."""
    wanted = body.structured_outputs
    if wanted is None:
        return
    kinds = ", ".join(_STRUCTURES)
    if len(wanted) != 1 or not wanted.keys() <= _STRUCTURES.keys():
        raise BadBody(f"Invalid 'structured_outputs': give exactly one of {kinds}.", "structured_outputs")
    name, value = next(iter(wanted.items()))
    field = f"structured_outputs.{name}"
    if not isinstance(value, _STRUCTURES[name]) or value in ("", [], False):
        raise BadBody(f"Invalid '{field}': it is empty or of another type.", field, "invalid_type")
    if isinstance(value, list) and not all(isinstance(one, str) and one for one in value):
        raise BadBody(f"Invalid '{field}': choices are texts that are not empty.", field, "invalid_type")


def _check_format(chat: ChatBody) -> None:
    wanted = chat.response_format
    if wanted is None or wanted.get("type") in ("text", "json_object"):
        return
    if wanted.get("type") != "json_schema":
        raise refused("response_format", "only the types 'text', 'json_object' and 'json_schema' are offered")
    given = wanted.get("json_schema")
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        where = "response_format.json_schema"
        raise BadBody(f"Invalid '{where}': an object with a name and a schema is needed.", where)
    if not isinstance(given.get("schema", {}), dict):
        where = "response_format.json_schema.schema"
        raise BadBody(f"Invalid '{where}': it must be an object.", where, "invalid_type")


def _check_chat(chat: ChatBody) -> None:
    if not chat.messages:
        raise BadBody("Invalid 'messages': at least one message is needed.", "messages")
    if chat.top_logprobs is not None and not chat.logprobs:
        raise BadBody("Invalid 'top_logprobs': it needs 'logprobs' to be true.", "top_logprobs")
    for index, message in enumerate(chat.messages):
        for name in ("audio", "function_call"):
            if getattr(message, name) is not None:
                raise refused(f"messages[{index}].{name}", CHAT[name].why)
    check_offered(chat)
    _check_metadata(chat.metadata or {})
    _check_tools(chat)
    _check_format(chat)


def _check_metadata(given: dict[str, str]) -> None:
    key, value = MAX_METADATA_KEY, MAX_METADATA_VALUE
    if len(given) > MAX_METADATA or any(len(k) > key or len(v) > value for k, v in given.items()):
        limits = f"{MAX_METADATA} pairs, keys of {key} and values of {value} characters"
        raise BadBody(f"Invalid 'metadata': at most {limits} are allowed.", "metadata")


def _check_tools(chat: ChatBody) -> None:
    tools = chat.tools or []
    if len(tools) > MAX_TOOLS:
        raise BadBody(f"Invalid 'tools': {len(tools)} tools; at most {MAX_TOOLS} are allowed.", "tools")
    for index, tool in enumerate(tools):
        if not _FUNCTION.fullmatch(tool.function.name):
            where = f"tools[{index}].function.name"
            text = f"Invalid '{where}': {tool.function.name[:80]!r} is not 1 to 64 letters, digits, '_' and '-'."
            raise BadBody(text, where)
    names = [tool.function.name for tool in tools]
    if len(set(names)) < len(names):
        raise BadBody("Invalid 'tools': two of them have one name.", "tools")
    if chat.tool_choice in (None, "none", "auto"):
        return
    if not tools:
        raise BadBody("Invalid 'tool_choice': it needs 'tools'.", "tool_choice")
    if isinstance(chat.tool_choice, NamedTool) and chat.tool_choice.function.name not in names:
        text = f"Invalid 'tool_choice': {chat.tool_choice.function.name[:80]!r} is none of the tools."
        raise BadBody(text, "tool_choice")


def _check_texts(name: str, given: str | list[Any], listed: Sequence[str | tuple[int, ...]]) -> None:
    """A field that takes a text, texts, token ids or lists of them."""
    if not given:
        raise BadBody(f"Invalid '{name}': it is empty.", name)
    if not isinstance(given, str) and len({type(item) for item in given}) > 1:
        raise BadBody(f"Invalid '{name}': texts, ids and lists of ids cannot be mixed.", name, "invalid_type")
    if not all(listed):
        raise BadBody(f"Invalid '{name}': one of the {name}s is empty.", name)


def _check_completion(body: CompletionBody) -> None:
    _between("logprobs", body.logprobs, 0, MAX_LOGPROBS)
    check_offered(body)
    if body.best_of is not None and body.best_of != body.choices:
        raise refused("best_of", "every choice that is generated is returned; use 'n'")
    _check_texts("prompt", body.prompt, body.prompts)
    if len(body.prompts) * body.choices > MAX_PROMPTS:
        text = f"Invalid 'prompt': {len(body.prompts)} prompts of {body.choices} choices; {MAX_PROMPTS} is the most."
        raise BadBody(text, "prompt")
