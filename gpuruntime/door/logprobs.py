"""Log probabilities in OpenAI's two shapes and vLLM's one for prompts. Strict JSON: -9999 stands for minus infinity."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any

from gpuruntime.backend import TokenLogprob

LEAST = -9999.0
TokenBytes = Callable[[int], bytes]


def strict(logprob: float) -> float:
    """Also what is no number becomes the least."""
    return logprob if logprob > LEAST else LEAST


def chat_logprobs(entries: Sequence[TokenLogprob], token_bytes: TokenBytes) -> list[dict[str, Any]]:
    """``choices[].logprobs.content``."""

    def one(token: int, logprob: float) -> dict[str, Any]:
        raw = token_bytes(token)
        return {"token": raw.decode("utf-8", "replace"), "logprob": strict(logprob), "bytes": list(raw)}

    return [
        {**one(entry.token, entry.logprob), "top_logprobs": [one(*pair) for pair in entry.top]} for entry in entries
    ]


def prompt_logprobs(
    entries: Sequence[TokenLogprob | None], token_bytes: TokenBytes
) -> list[dict[str, dict[str, Any]] | None]:
    """vLLM's ``prompt_logprobs``: by token id, with the rank where it is among the likeliest."""
    found: list[dict[str, dict[str, Any]] | None] = []
    for entry in entries:
        if entry is None:
            found.append(None)
            continue
        ranked = {token: (logprob, rank) for rank, (token, logprob) in enumerate(entry.top, 1)}
        own = {entry.token: ranked.get(entry.token, (entry.logprob, None))}
        found.append(
            {
                str(token): {
                    "logprob": strict(logprob),
                    "rank": rank,
                    "decoded_token": token_bytes(token).decode("utf-8", "replace"),
                }
                for token, (logprob, rank) in (own | ranked).items()
            }
        )
    return found


class TextLogprobs:
    """``choices[].logprobs`` of one text completion, piece by piece: it knows where in the text the next token is.

    ``text_offset`` counts characters from the start of the returned text, the echo included. A token that is no whole
    character is written ``bytes:\\xe2\\x80``, as OpenAI does; ``unseen`` are tokens that are not part of the text.
    """

    def __init__(self, token_bytes: TokenBytes, unseen: frozenset[int]) -> None:
        self._token_bytes = token_bytes
        self._unseen = unseen
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def echo(self, text: str, token_ids: Sequence[int], entries: Sequence[TokenLogprob | None]) -> dict[str, Any]:
        """The prompt's part. A token that is not in the text, as one the tokenizer put before it, takes no room."""
        offsets = []
        for token in token_ids:
            offsets.append(self._offset)
            piece = self._decoder.decode(self._token_bytes(token))
            bare = piece[1:] if piece.startswith(" ") and not self._offset else piece
            fitting = next((p for p in (piece, bare) if text.startswith(p, self._offset)), "")
            self._offset += len(fitting)
        self._offset = len(text)
        self._decoder.reset()
        return self._shape(token_ids, entries, offsets)

    def more(self, entries: Sequence[TokenLogprob]) -> dict[str, Any]:
        offsets = []
        for entry in entries:
            offsets.append(self._offset)
            if entry.token not in self._unseen:
                self._offset += len(self._decoder.decode(self._token_bytes(entry.token)))
        return self._shape([entry.token for entry in entries], entries, offsets)

    def _shape(
        self, token_ids: Sequence[int], entries: Sequence[TokenLogprob | None], offsets: list[int]
    ) -> dict[str, Any]:
        return {
            "tokens": [self._name(token) for token in token_ids],
            "token_logprobs": [None if entry is None else strict(entry.logprob) for entry in entries],
            "top_logprobs": [None if entry is None else self._top(entry) for entry in entries],
            "text_offset": offsets,
        }

    def _top(self, entry: TokenLogprob) -> dict[str, float]:
        """The picked token is always among them."""
        top = {self._name(token): strict(logprob) for token, logprob in entry.top}
        return top if self._name(entry.token) in top else {self._name(entry.token): strict(entry.logprob)} | top

    def _name(self, token: int) -> str:
        raw = self._token_bytes(token)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def cut(scores: dict[str, Any], stride: int) -> list[dict[str, Any]]:
    """In pieces of ``stride`` tokens, at least one."""
    starts = range(0, max(1, len(scores["tokens"])), stride)
    return [{name: items[at : at + stride] for name, items in scores.items()} for at in starts]


def joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The pieces of one completion as one."""
    names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    return {name: [item for part in parts for item in part[name]] for name in names}
