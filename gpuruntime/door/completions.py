"""``POST /v1/completions``: plain texts or token ids, several at once, with an echo where it is wanted."""

from __future__ import annotations

from gpuruntime.backend import Backend, BackendInfo
from gpuruntime.door.asked import Asked, refusing
from gpuruntime.door.choice import Source
from gpuruntime.door.frames import Envelope
from gpuruntime.door.structure import asked_grammar
from gpuruntime.door.text_frames import TextFrames
from gpuruntime.openai_api import CompletionBody
from gpuruntime.openai_checks import check_ids, decode_completion


class Completions:
    name = "text_completion"
    prefix = "cmpl"
    prompt_field = "prompt"

    def parse(self, body: bytes) -> Asked:
        completion = refusing(lambda: decode_completion(body))
        return Asked(
            completion,
            completion.most_tokens,
            completion.logprob_count,
            echo=bool(completion.echo),
            grammar=refusing(lambda: asked_grammar(completion)),
        )

    async def sources(self, backend: Backend, info: BackendInfo, asked: Asked, salt: bytes) -> list[Source]:
        body = asked.body
        if not isinstance(body, CompletionBody):
            return []
        sources = []
        for prompt in body.prompts:
            if isinstance(prompt, tuple):
                refusing(lambda ids=prompt: check_ids("prompt", ids, info.vocab_size))  # type: ignore[misc]
            special = body.add_special_tokens is not False
            prepared = await backend.prepare_text(prompt, salt, special_tokens=special)
            source = Source(prepared)
            if asked.echo:
                source.echo = prompt if isinstance(prompt, str) else await backend.detokenize(prompt)
            sources.append(source)
        return sources

    def writer(self, envelope: Envelope, backend: Backend, info: BackendInfo, asked: Asked) -> TextFrames:
        return TextFrames(
            envelope,
            backend.token_bytes,
            logprobs=asked.logprobs is not None,
            echo=asked.echo,
            shows_prompt=asked.body.prompt_logprobs is not None,
            unseen=frozenset(info.eos_token_ids),
        )
