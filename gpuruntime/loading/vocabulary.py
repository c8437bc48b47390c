"""The bytes of single tokens, as ``logprobs`` shows them: one token need not be whole characters."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from tokenizers import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"  # how SentencePiece writes a space


class Vocabulary:
    """Reads which of the two ways to spell bytes a tokenizer has: GPT-2's alphabet, or SentencePiece's."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._added = {token: added.content for token, added in tokenizer.get_added_tokens_decoder().items()}
        self._byte_level = "ByteLevel" in _decoder_types(json.loads(tokenizer.to_str()).get("decoder"))
        self._known: dict[int, bytes] = {}

    @property
    def size(self) -> int:
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def token_bytes(self, token: int) -> bytes:
        """Empty for an id the tokenizer has no token for (a padded vocabulary)."""
        found = self._known.get(token)
        if found is None:
            found = self._known[token] = self._read(token)
        return found

    def _read(self, token: int) -> bytes:
        if token in self._added:
            return str(self._added[token]).encode()
        spelled = self._tokenizer.id_to_token(token)
        if spelled is None:
            return b""
        if self._byte_level:
            alphabet = _alphabet()
            if all(letter in alphabet for letter in spelled):
                return bytes(alphabet[letter] for letter in spelled)
            return str(spelled).encode()
        if byte := _BYTE.fullmatch(spelled):
            return bytes([int(byte[1], 16)])
        return str(spelled).replace(_SPACE, " ").encode()


def _decoder_types(decoder: dict[str, Any] | None) -> set[str]:
    if decoder is None:
        return set()
    parts: list[dict[str, Any]] = decoder.get("decoders", [])
    return {str(decoder.get("type"))}.union(*(_decoder_types(part) for part in parts))


@functools.cache
def _alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: printable ones for themselves, the others from U+0100 on, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + at): byte for at, byte in enumerate(others)}
