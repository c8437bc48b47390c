"""Tokenizers out of GGUF headers: BPE against transformers' own classes, SentencePiece against its algorithm."""

from __future__ import annotations

import inspect
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from gpuruntime.gguf_header import GgufHeader, read_gguf_header
from gpuruntime.loading.gguf_tokenizer import build_tokenizer, end_token_ids
from helpers.gguf_models import close

TEXTS = [
    "The quick brown fox, isn't it? I'LL see 12345 of 7 foxes; they've 3.14!",
    "  two  spaces\n\n\n  and\ttabs \r\n trailing   ",
    "def f(x):\n    return x**2  # комментарий\n",
    "日本語のテキスト、中文和한국어 ٣٤٥ ไทย",
    "cafe\u0301 café naïve 🙂🏽👨‍👩‍👧 ½ \u00a0\u200b",
    "PathNames/like/this CamelCaseWORDS x\u0301y",
    "",
    " ",
    "\x00\ufffd",
]
SPECIAL = ["<|pad|>", "<|begin|>", "<|im_end|>"]


@pytest.fixture(scope="module")
def trained() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A byte-level vocabulary with merges, trained over words that hold digits and spaces too."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=alphabet, show_progress=False, special_tokens=SPECIAL
    )
    source = Path(__file__).read_text("utf-8")
    words = [f" {word}" for word in source.split()] + source.split() + TEXTS + ["123", "12", "  ", "\n\n", " 12"] * 9
    tokenizer.train_from_iterator(words, trainer)
    state = json.loads(tokenizer.to_str())["model"]
    return state["vocab"], [tuple(merge) for merge in state["merges"]]


def header(tmp_path: Path, fill: Any) -> GgufHeader:
    path = tmp_path / "t.gguf"
    writer = GGUFWriter(path, "llama")
    fill(writer)
    close(writer)
    return read_gguf_header(path, arrays=True)


def byte_level(tmp_path: Path, trained: Any, pre: str | None, *, extra: Any = None) -> Tokenizer:
    vocabulary, merges = trained
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])

    def fill(writer: GGUFWriter) -> None:
        writer.add_tokenizer_model("gpt2")
        if pre is not None:
            writer.add_tokenizer_pre(pre)
        writer.add_token_list(tokens)
        writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
        writer.add_token_merges([" ".join(pair) for pair in merges])
        writer.add_bos_token_id(1)
        if extra is not None:
            extra(writer)

    return build_tokenizer(header(tmp_path, fill))


def reference(pre: str, trained: Any) -> Any:
    """transformers' class of the family that the name stands for; ``encode(text)`` without special tokens."""
    import transformers
    from transformers.convert_slow_tokenizer import TikTokenConverter

    vocabulary, merges = trained
    if pre in ("gpt-2", "smollm"):
        tokenizer = transformers.GPT2Tokenizer(vocab=vocabulary, merges=list(merges))._tokenizer
        if pre == "smollm":
            # SmolLM2's own tokenizer.json: GPT-2's behind single digits.
            single = pre_tokenizers.Digits(individual_digits=True)
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([single, tokenizer.pre_tokenizer])
        return tokenizer
    if pre == "qwen2":
        return transformers.Qwen2Tokenizer(vocab=vocabulary, merges=list(merges))._tokenizer
    # Llama 3's own tokenizer.json: the rule of its tiktoken file.

    pattern = inspect.signature(TikTokenConverter.__init__).parameters["pattern"].default
    tokenizer = Tokenizer(models.BPE(vocabulary, list(merges), ignore_merges=True))
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "qwen2", "llama-bpe"])
def test_byte_level_tokens_are_the_familys_own(tmp_path: Path, trained: Any, pre: str) -> None:
    ours, theirs = byte_level(tmp_path, trained, pre), reference(pre, trained)
    for text in TEXTS:
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, add_special_tokens=False).ids == expected, text
        assert ours.decode(expected, skip_special_tokens=False) == theirs.decode(expected, skip_special_tokens=False)
    assert any(len(ours.encode(text).ids) < len(text.encode()) for text in TEXTS), "nothing was merged"


def test_the_rules_differ_where_the_families_do(tmp_path: Path, trained: Any) -> None:
    def pieces(pre: str, text: str) -> list[str]:
        tokenizer = byte_level(tmp_path, trained, pre)
        return [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    assert pieces("gpt-2", "a 1234") == ["a", "Ġ1234"]
    assert pieces("smollm", "a 1234") == ["a", "Ġ", "1", "2", "3", "4"]
    assert pieces("llama-bpe", "a 1234") == ["a", "Ġ", "123", "4"]
    assert pieces("qwen2", "a 12") == ["a", "Ġ", "1", "2"]
    assert pieces("tekken", "camelCaseWORDS 12") == ["camel", "Case", "WORDS", "Ġ", "1", "2"]
    assert pieces("llama-bpe", "camelCase") == ["camelCase"]


@pytest.mark.parametrize("pre", [None, "default", "no-such-model"])
def test_an_unknown_split_is_refused(tmp_path: Path, trained: Any, pre: str | None) -> None:
    with pytest.raises(ValueError, match=rf"tokenizer\.ggml\.pre {pre}: .*not known; supported: gpt-2"):
        byte_level(tmp_path, trained, pre)


def test_control_tokens_bos_and_ends(tmp_path: Path, trained: Any) -> None:
    tokenizer = byte_level(tmp_path, trained, "llama-bpe")
    assert tokenizer.encode("<|im_end|>a", add_special_tokens=False).ids[0] == 2
    assert tokenizer.encode("a").ids[0] == 1  # Llama 3 begins with bos whether the file says so or not
    without = byte_level(tmp_path, trained, "llama-bpe", extra=lambda writer: writer.add_add_bos_token(False))
    assert without.encode("a").ids == tokenizer.encode("a", add_special_tokens=False).ids
    assert byte_level(tmp_path, trained, "qwen2").encode("a").ids[0] != 1

    def fill(writer: GGUFWriter) -> None:
        writer.add_token_list(["<eos>", "<end_of_turn>", "x"])
        writer.add_token_types([3, 3, 1])
        writer.add_eos_token_id(0)

    assert end_token_ids(header(tmp_path, fill)) == [0, 1]


# --- SentencePiece ----------------------------------------------------------------------------------------------

_WORDS = ["the", "he", "ca", "fé", "ing", "an", "ab", "bc", "abc", "12", "日本"]


def pieces() -> tuple[list[str], list[float], list[int]]:
    """Control tokens, 256 bytes, letters and pieces; scores fall with the rank, as training leaves them."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256))]
    types = [2, 3, 3] + [6] * 256
    scores = [0.0] * len(tokens)
    letters = sorted(set("".join(_WORDS)) | set("▁abcdefghijklmnopqrstuvwxyzTq.,"))
    joined = [*_WORDS, *(f"▁{word}" for word in _WORDS), "▁▁", "▁▁▁▁", "▁a", "th", "▁th", "日", "▁t"]
    normal = list(dict.fromkeys([*joined, *letters]))
    tokens += normal
    types += [1] * len(normal)
    scores += [-float(rank) for rank in range(len(normal))]
    return tokens, scores, types


def by_hand(text: str, *, prefix: bool) -> list[int]:
    """SentencePiece's BPE as its paper has it: join the neighbours whose piece scores highest, leftmost first."""
    tokens, scores, types = pieces()
    score = {token: scores[index] for index, token in enumerate(tokens) if types[index] == 1}
    parts = list((("▁" if prefix else "") + text.replace(" ", "▁")) if text else "")
    while True:
        found = [
            (score[left + right], -at)
            for at, (left, right) in enumerate(itertools.pairwise(parts))
            if left + right in score
        ]
        if not found:
            break
        at = -max(found)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    ids: list[int] = []
    for part in parts:
        ids += [tokens.index(part)] if part in score else [3 + byte for byte in part.encode()]
    return ids


def sentence_piece(tmp_path: Path, *, prefix: bool, model: str = "llama") -> Tokenizer:
    tokens, scores, types = pieces()

    def fill(writer: GGUFWriter) -> None:
        writer.add_tokenizer_model(model)
        writer.add_token_list(tokens)
        writer.add_token_scores(scores)
        writer.add_token_types(types)
        writer.add_bos_token_id(1)
        if not prefix:
            writer.add_add_space_prefix(False)

    return build_tokenizer(header(tmp_path, fill))


@pytest.mark.parametrize("prefix", [True, False])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.sampled_from("the caféingab12日本🙂\n T"), max_size=30))
def test_sentence_piece_joins_by_score(tmp_path: Path, prefix: bool, text: str) -> None:
    if not (tmp_path / "t.json").exists():
        sentence_piece(tmp_path, prefix=prefix).save(str(tmp_path / "t.json"))
    tokenizer = Tokenizer.from_file(str(tmp_path / "t.json"))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert ids == by_hand(text, prefix=prefix)
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("prefix", [True, False])
def test_sentence_piece_on_every_text(tmp_path: Path, prefix: bool) -> None:
    tokenizer = sentence_piece(tmp_path, prefix=prefix)
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert ids == by_hand(text, prefix=prefix), text
        assert tokenizer.decode(ids) == text
    assert tokenizer.encode("a").ids[0] == 1
    assert tokenizer.encode("</s>", add_special_tokens=False).ids == [2]


def test_spaces_that_are_tokens_of_their_own(tmp_path: Path) -> None:
    """Gemma's runs of spaces and newlines are user-defined: matched before anything is merged."""

    def fill(writer: GGUFWriter) -> None:
        writer.add_tokenizer_model("llama")
        writer.add_token_list(["<unk>", "▁▁", "\n\n", "▁", "a", "▁a", "\n"])
        writer.add_token_scores([0.0, -9.0, -9.0, -3.0, -4.0, -1.0, -5.0])
        writer.add_token_types([2, 4, 4, 1, 1, 1, 1])
        writer.add_add_space_prefix(False)

    tokenizer = build_tokenizer(header(tmp_path, fill))
    assert tokenizer.encode("a  a\n\n\na").ids == [4, 1, 4, 2, 6, 4]
    assert tokenizer.decode([4, 1, 4, 2, 6, 4], skip_special_tokens=False) == "a  a\n\n\na"


def test_files_that_contradict_themselves(tmp_path: Path, trained: Any) -> None:
    def tokens(*names: str) -> Any:
        def fill(writer: GGUFWriter) -> None:
            writer.add_tokenizer_model("gpt2")
            writer.add_tokenizer_pre("gpt-2")
            writer.add_token_list(list(names))
            writer.add_token_merges(["a z"])

        return fill

    with pytest.raises(ValueError, match="names a token twice"):
        build_tokenizer(header(tmp_path, tokens("a", "a")))
    with pytest.raises(ValueError, match="merges do not fit the tokens"):
        build_tokenizer(header(tmp_path, tokens("a", "b")))
    with pytest.raises(ValueError, match=r"tokenizer\.ggml\.model bert is not supported; supported: gpt2, llama"):
        sentence_piece(tmp_path, prefix=True, model="bert")
    with pytest.raises(ValueError, match=r"holds no tokenizer\.ggml\.tokens"):
        build_tokenizer(header(tmp_path, lambda writer: writer.add_tokenizer_model("gpt2")))
