"""The bytes of single tokens, against what the tokenizer makes of them together."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from gpuruntime.loading.vocabulary import Vocabulary
from helpers.model import smollm2_dir

__all__ = ["smollm2_dir"]


def sentencepiece() -> Tokenizer:
    """Llama 2's way: spaces as U+2581, bytes as <0x..>."""
    pieces = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581the", "\u2581", "cat", "é"]
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, [], byte_fallback=True))
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def byte_level() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end é|>"])
    return tokenizer


TOKENIZERS = {"bytes": byte_level(), "pieces": sentencepiece()}


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(data=st.data())
def test_the_bytes_of_tokens_joined_are_their_text(kind: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[kind]
    vocabulary = Vocabulary(tokenizer)
    text = data.draw(st.text(max_size=20).filter(lambda text: text.isprintable()))
    ids = tokenizer.encode(text, add_special_tokens=False).ids if kind == "bytes" else [2 + b for b in text.encode()]
    assert b"".join(vocabulary.token_bytes(token) for token in ids) == text.encode()
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_pieces_and_holes() -> None:
    bytes_, pieces = Vocabulary(TOKENIZERS["bytes"]), Vocabulary(TOKENIZERS["pieces"])
    assert (bytes_.token_bytes(256), bytes_.token_bytes(999), bytes_.size) == ("<|end é|>".encode(), b"", 257)
    assert [pieces.token_bytes(token) for token in (1, 2 + 0xE2, 258, 259, 260, 261)] == [
        b"<s>", b"\xe2", b" the", b" ", b"cat", "é".encode(),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def real(smollm2_dir: Path) -> tuple[Tokenizer, Vocabulary]:
    tokenizer = Tokenizer.from_file(str(smollm2_dir / "tokenizer.json"))
    return tokenizer, Vocabulary(tokenizer)


@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=40))
def test_a_real_models_tokens_spell_its_text(real: tuple[Tokenizer, Vocabulary], text: str) -> None:
    tokenizer, vocabulary = real
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    spelled = b"".join(vocabulary.token_bytes(token) for token in ids)
    assert spelled.decode("utf-8", "replace") == tokenizer.decode(ids, skip_special_tokens=False)
