"""What an OpenAI-compatible server is asked, and how its log probabilities are read."""

from __future__ import annotations

import json
from typing import Any

from gpuruntime.backend import Prompt, SamplingParams, TokenLogprob

# vLLM's fields beyond OpenAI's; which of them a server knows is for who configures it to say.
EXTENSIONS = frozenset({"top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos", "stop_token_ids"})
SCORES = frozenset({"logprobs", "prompt_logprobs"})
UNGUIDED = frozenset({"tools", "response_format", "structured_outputs"})
_ID_NAME = "token_id:"


def upstream_body(model: str, prompt: Prompt, params: SamplingParams) -> dict[str, Any]:
    """The body of a streamed request. What is off is left out: not every server knows every field."""
    chat = bool(prompt.messages)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": params.max_tokens,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    if chat:
        body["messages"] = [_message(message) for message in prompt.messages]
    else:
        body["prompt"] = prompt.text if prompt.token_ids is None else list(prompt.token_ids)
    optional: dict[str, Any] = {
        "top_k": params.top_k,
        "min_p": params.min_p,
        "presence_penalty": params.presence_penalty,
        "frequency_penalty": params.frequency_penalty,
        "repetition_penalty": params.repetition_penalty if params.repetition_penalty != 1 else None,
        "logit_bias": {str(token): bias for token, bias in params.logit_bias},
        "min_tokens": params.min_tokens,
        "stop": list(params.stop),
        "stop_token_ids": list(params.stop_token_ids),
        "ignore_eos": params.ignore_eos,
    }
    body |= {name: value for name, value in optional.items() if value}
    if prompt.tools:
        # The door reads calls out of the text, as it does for our own engine: the server only renders the tools.
        body |= {"tools": list(prompt.tools), "tool_choice": "none"}
    if params.special:
        body["skip_special_tokens"] = False
    if params.grammar is not None:
        body["structured_outputs"] = structure_of(params.grammar)
    if params.seed is not None:
        body["seed"] = params.seed
    if params.logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": params.logprobs} if chat else {"logprobs": params.logprobs}
        body["return_tokens_as_token_ids"] = True
    return body


def structure_of(grammar: str) -> dict[str, Any]:
    """llguidance's grammar as vLLM's ``structured_outputs``, which its guidance backend compiles to the same one."""
    if not grammar.startswith("{"):  # Lark is its own text
        return {"grammar": grammar}
    (only,) = json.loads(grammar)["grammars"]
    return {"grammar": only["lark_grammar"]} if only.get("lark_grammar") else {"json": only["json_schema"]}


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """On the wire a call's arguments are JSON in a text; templates have them as the object."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        function, arguments = call["function"], call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append(call | {"function": function | {"arguments": text}})
    return message | {"tool_calls": calls}


def scores_of(logprobs: dict[str, Any] | None) -> tuple[TokenLogprob, ...]:
    """A chunk's ``logprobs`` of either endpoint, with vLLM's ``token_id:N`` for names of tokens."""
    if not logprobs:
        return ()
    if "content" in logprobs:
        return tuple(
            TokenLogprob(
                _id(entry["token"]),
                entry["logprob"],
                tuple((_id(other["token"]), other["logprob"]) for other in entry.get("top_logprobs") or ()),
            )
            for entry in logprobs["content"] or ()
        )
    tops = logprobs.get("top_logprobs") or [None] * len(logprobs["tokens"])
    return tuple(
        TokenLogprob(_id(token), logprob, _ranked(top or {}))
        for token, logprob, top in zip(logprobs["tokens"], logprobs["token_logprobs"], tops, strict=True)
    )


def _ranked(top: dict[str, float]) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(((_id(name), value) for name, value in top.items()), key=lambda pair: -pair[1]))


def _id(name: str) -> int:
    """-1 where a server names its tokens otherwise."""
    number = name.removeprefix(_ID_NAME)
    return int(number) if name.startswith(_ID_NAME) and number.isdecimal() else -1
