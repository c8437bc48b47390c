"""OpenAI's fields that Berth knows and does not offer: refused by name, unless they ask for what happens anyway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuruntime.openai_api import BadBody, ChatBody, CompletionBody


@dataclass(frozen=True, slots=True)
class Refusal:
    """``idle``: values that change nothing here, beside null."""

    why: str
    idle: tuple[object, ...] = ()


CHAT: Mapping[str, Refusal] = {
    "functions": Refusal("it was replaced by 'tools'", ([],)),
    "function_call": Refusal("it was replaced by 'tool_choice'", ("none", "auto")),
    "modalities": Refusal("only 'text' is offered", ([], ["text"])),
    "audio": Refusal("only text is offered"),
    "moderation": Refusal("no moderation is offered"),
    "prediction": Refusal("no prediction of the answer is used"),
    "prompt_cache_options": Refusal("prefixes are cached for as long as there is room", ({}, {"mode": "implicit"})),
    "prompt_cache_retention": Refusal("prefixes are cached for as long as there is room", ("in_memory",)),
    "reasoning_effort": Refusal("the model alone says how long it reasons"),
    "store": Refusal("answers are not stored", (False,)),
    "verbosity": Refusal("the model alone says how much it writes", ("medium",)),
    "web_search_options": Refusal("no search is offered"),
}
COMPLETION: Mapping[str, Refusal] = {
    "suffix": Refusal("no text can be completed towards a suffix", ("",)),
}


def check_offered(body: ChatBody | CompletionBody) -> None:
    """Raises ``BadBody`` that names the field."""
    for name, refusal in (CHAT if isinstance(body, ChatBody) else COMPLETION).items():
        value = getattr(body, name)
        if value is not None and value not in refusal.idle:
            raise refused(name, refusal.why)
    if body.stream_options is not None and body.stream_options.include_obfuscation:
        raise refused("stream_options.include_obfuscation", "frames are sent without padding")


def refused(name: str, why: str) -> BadBody:
    return BadBody(f"Unsupported '{name}': {why}.", name, "unsupported_value")
