"""The ``tokenizer.json`` of a GGUF file: byte-level BPE ("gpt2") and SentencePiece's BPE ("llama": Llama 2, Gemma).

A GGUF names how text is split before merging (``tokenizer.ggml.pre``) and leaves the rule to the reader. The rules here
are those of the families' own tokenizers; a name without one is refused, because a wrong split is wrong silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from gpuruntime.gguf_header import GgufHeader

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_SPACE = "▁"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_SPLITS = {
    "llama-bpe": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_TAIL}",
    "qwen2": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_TAIL}",
    "tekken": (
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*|\p{{N}}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
_WHOLE_WORDS_FIRST = ("llama-bpe", "tekken")  # a word that is a token is not merged anew
_BEGINS_WITH_BOS = ("llama-bpe", "tekken")
PRE_TOKENIZERS = ("gpt-2", "smollm", *_SPLITS)
# Chat models end a turn with one of these, whatever their file calls the end of the text.
_TURN_ENDS = ("<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<end_of_turn>")
_NAMES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def build_tokenizer(header: GgufHeader) -> Tokenizer:
    """Of a header read with its arrays. Raises ``ValueError`` for a kind, ``pre`` or vocabulary it cannot follow."""
    meta = header.metadata
    tokens = _tokens(meta)
    types = _array(meta, "token_type", len(tokens), [_NORMAL] * len(tokens))
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise ValueError("tokenizer.ggml.tokens names a token twice")
    kind = meta.get("tokenizer.ggml.model")
    if kind == "gpt2":
        tokenizer = _byte_level(meta, vocabulary)
    elif kind == "llama":
        tokenizer = _sentence_piece(meta, vocabulary, tokens, types)
    else:
        raise ValueError(f"tokenizer.ggml.model {kind} is not supported; supported: gpt2, llama")
    prefixed = kind == "llama" and _adds_space(meta)
    added = [_added(token, types[index], prefixed) for index, token in enumerate(tokens) if _is_added(types[index])]
    tokenizer.add_tokens([token for token in added if not token.special])
    tokenizer.add_special_tokens([token for token in added if token.special])
    if tokenizer.get_vocab_size() != len(tokens):
        raise ValueError(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, the file {len(tokens)}")
    _begin_with_bos(tokenizer, meta, tokens)
    return tokenizer


def special_tokens(header: GgufHeader) -> dict[str, str]:
    """bos_token, eos_token, unk_token and pad_token, as far as the file names them."""
    tokens = _tokens(header.metadata)
    found = {}
    for name, key in _NAMES.items():
        index = header.metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(index, int) and 0 <= index < len(tokens):
            found[name] = tokens[index]
    return found


def end_token_ids(header: GgufHeader) -> list[int]:
    """Every token that ends an answer, the file's own end of text first."""
    meta = header.metadata
    tokens = _tokens(meta)
    types = _array(meta, "token_type", len(tokens), [_NORMAL] * len(tokens))
    named = [meta.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom")]
    ends = {token for token in _TURN_ENDS if token in tokens}
    known = [index for index, token in enumerate(tokens) if token in ends and _is_added(types[index])]
    valid = [index for index in [*named, *known] if isinstance(index, int) and 0 <= index < len(tokens)]
    return list(dict.fromkeys(valid))


def _byte_level(meta: Mapping[str, Any], vocabulary: dict[str, int]) -> Tokenizer:
    pre = meta.get("tokenizer.ggml.pre")
    if pre not in PRE_TOKENIZERS:
        supported = ", ".join(PRE_TOKENIZERS)
        raise ValueError(f"tokenizer.ggml.pre {pre}: how it splits text is not known; supported: {supported}")
    merges = []
    for line in _array(meta, "merges", None, []):
        left, _, right = str(line).partition(" ")
        merges.append((left, right))
    try:
        model = models.BPE(vocabulary, merges, ignore_merges=pre in _WHOLE_WORDS_FIRST)
    except Exception as error:  # tokenizers raises bare Exception
        raise ValueError(f"tokenizer.ggml.merges do not fit the tokens: {error}") from error
    tokenizer = Tokenizer(model)
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre not in _SPLITS)
    if pre == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), whole])
    elif pre in _SPLITS:
        split = pre_tokenizers.Split(Regex(_SPLITS[pre]), behavior="isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, whole])
    else:
        tokenizer.pre_tokenizer = whole
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentence_piece(
    meta: Mapping[str, Any], vocabulary: dict[str, int], tokens: list[str], types: list[int]
) -> Tokenizer:
    scores = _array(meta, "scores", len(tokens), None)
    unknown = [index for index, kind in enumerate(types) if kind == _UNKNOWN]
    model = models.BPE(
        vocabulary,
        _merges(vocabulary, tokens, types, scores),
        unk_token=tokens[unknown[0]] if unknown else None,
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    prefixed = _adds_space(meta)
    spaces = normalizers.Replace(" ", _SPACE)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), spaces]) if prefixed else spaces
    steps = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefixed else steps)
    return tokenizer


def _merges(
    vocabulary: dict[str, int], tokens: list[str], types: list[int], scores: list[float]
) -> list[tuple[str, str]]:
    """SentencePiece joins the pair whose piece scores highest: every split of every piece, in order of the scores."""
    usable = {token for token, kind in zip(tokens, types, strict=True) if kind in (_NORMAL, _USER_DEFINED)}
    ranked = []
    for token in usable:
        index = vocabulary[token]
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in usable and right in usable:
                ranked.append((-scores[index], index, vocabulary[left], vocabulary[right], left, right))
    ranked.sort()
    return [(left, right) for *_, left, right in ranked]


def _is_added(kind: int) -> bool:
    return kind in (_CONTROL, _USER_DEFINED, _UNKNOWN)


def _added(token: str, kind: int, prefixed: bool) -> AddedToken:
    """Matched before text is split; a piece of spaces after they were replaced, where no other is put in front."""
    normalized = kind == _USER_DEFINED and _SPACE in token and not prefixed
    return AddedToken(token, special=kind != _USER_DEFINED, normalized=normalized)


def _begin_with_bos(tokenizer: Tokenizer, meta: Mapping[str, Any], tokens: list[str]) -> None:
    default = meta.get("tokenizer.ggml.model") == "llama" or meta.get("tokenizer.ggml.pre") in _BEGINS_WITH_BOS
    index = meta.get("tokenizer.ggml.bos_token_id")
    if not meta.get("tokenizer.ggml.add_bos_token", default) or not isinstance(index, int):
        return
    if not 0 <= index < len(tokens):
        raise ValueError(f"tokenizer.ggml.bos_token_id {index} is outside the {len(tokens)} tokens")
    bos = tokens[index]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, index)]
    )


def _adds_space(meta: Mapping[str, Any]) -> bool:
    return bool(meta.get("tokenizer.ggml.add_space_prefix", True))


def _tokens(meta: Mapping[str, Any]) -> list[str]:
    tokens: list[str] = _array(meta, "tokens", None, None)
    if not tokens or not all(isinstance(token, str) for token in tokens):
        raise ValueError("tokenizer.ggml.tokens is no list of strings")
    return tokens


def _array(meta: Mapping[str, Any], key: str, length: int | None, default: Any) -> list[Any]:
    value = meta.get(f"tokenizer.ggml.{key}", default)
    if not isinstance(value, list):
        raise ValueError(f"the file holds no tokenizer.ggml.{key}")
    if length is not None and len(value) != length:
        raise ValueError(f"tokenizer.ggml.{key} has {len(value)} entries for {length} tokens")
    return value
