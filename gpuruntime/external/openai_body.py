"""What an OpenAI-compatible server is asked, and how its log probabilities are read."""

from __future__ import annotations

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
        body["messages"] = list(prompt.messages)
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
    if params.seed is not None:
        body["seed"] = params.seed
    if params.logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": params.logprobs} if chat else {"logprobs": params.logprobs}
        body["return_tokens_as_token_ids"] = True
    return body


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
