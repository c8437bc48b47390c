"""Grammars that an answer has to follow, by llguidance: compiled beside the steps, read at each of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from numpy.typing import NDArray

from gpuruntime.loading.tokenizer import ChatTokenizer

_KEPT = 64


class Matcher:
    """One answer's place in its grammar. ``failed``: the grammar grew over llguidance's limits, and the answer ends."""

    def __init__(self, matcher: LLMatcher, vocab_size: int) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._bits = allocate_token_bitmask(1, vocab_size)

    @property
    def failed(self) -> bool:
        return bool(self._matcher.is_error())

    @property
    def complete(self) -> bool:
        """Nothing can follow but the end of the text."""
        return bool(self._matcher.is_stopped())

    def follows(self, tokens: Sequence[int]) -> int:
        """How many of ``tokens``, from the first on, the grammar would take."""
        return 0 if self.failed or self.complete else int(self._matcher.validate_tokens(list(tokens)))

    def allowed(self, drafts: Sequence[int] = ()) -> list[NDArray[np.bool_]]:
        """``[1 + drafts][vocab]``: the tokens that may come next, and behind each of ``drafts``, which it follows.

        All of them once it ``failed``. Looking ahead is done on a copy: whatever comes of it, the place stays.
        """
        found = [self._mask(self._matcher)]
        if drafts:
            ahead = self._matcher.deep_copy()
            for draft in drafts:
                ahead.consume_token(draft)
                found.append(self._mask(ahead))
        return found

    def _mask(self, matcher: LLMatcher) -> NDArray[np.bool_]:
        fill_next_token_bitmask(matcher, self._bits)
        if matcher.is_error():
            return np.ones(self._vocab_size, dtype=np.bool_)
        bits = np.unpackbits(self._bits.view(np.uint8)[0], bitorder="little")
        return bits[: self._vocab_size].view(np.bool_)

    def accept(self, token: int) -> None:
        """Moves on by a token; one that was not allowed makes it fail."""
        self._matcher.consume_token(token)


class Grammars:
    """Compiles grammars for one model. The tokenizer is read with the first of them: few replicas are ever asked."""

    def __init__(self, model_path: Path, vocab_size: int) -> None:
        self._model_path = model_path
        self._vocab_size = vocab_size
        self._tokenizer: LLTokenizer | None = None
        self._compiled: OrderedDict[str, LLMatcher] = OrderedDict()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="grammar")

    def compile(self, grammar: str, answered: Sequence[int] = ()) -> Future[Matcher]:
        """For an answer that begins with ``answered``. ``ValueError`` in the future where it does not compile."""
        return self._worker.submit(self._compile, grammar, answered)

    def _compile(self, grammar: str, answered: Sequence[int]) -> Matcher:
        found = self._compiled.get(grammar)
        if found is None:
            found = LLMatcher(self._load(), grammar, log_level=0)
            if found.is_error():
                raise ValueError(f"the grammar does not compile: {found.get_error()}")
            self._compiled[grammar] = found
        self._compiled.move_to_end(grammar)
        if len(self._compiled) > _KEPT:
            self._compiled.popitem(last=False)
        matcher = Matcher(found.deep_copy(), self._vocab_size)
        for token in answered:
            matcher.accept(token)
        return matcher

    def _load(self) -> LLTokenizer:
        if self._tokenizer is None:
            known = ChatTokenizer(self._model_path)
            ends: Sequence[int] = [token for token in known.eos_token_ids if token < self._vocab_size]
            self._tokenizer = LLTokenizer(
                known.tokenizer.to_str(), n_vocab=self._vocab_size, eos_token=list(ends) or None
            )
        return self._tokenizer
