"""Token ids to the text a client may see; runs outside the engine's step."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from gpuruntime.pending import longest_pending


class StopFilter:
    """Lets text through up to the first stop string, wherever token borders fall.

    The first to be complete counts, as if characters came one by one. A suffix that may be the beginning of a stop
    string is withheld until the next text decides.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """The text that is now safe to show; after a match ``stopped`` is True and nothing more comes."""
        if self.stopped or not self._stops:
            return "" if self.stopped else text
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            self._held = ""
            return text[: min(found)[1]]
        keep = max(longest_pending(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """What was withheld when the text ended inside a beginning: it was no stop string."""
        held, self._held = self._held, ""
        return "" if self.stopped else held


class TextStream:
    """Decodes one request's tokens into whole code points and applies its stop strings.

    Of special tokens only those named in ``special`` become text.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str], special: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._names = _special_names(tokenizer, special) if special else {}
        self._decoder = DecodeStream(skip_special_tokens=True)
        self._filter = StopFilter(stops)

    @property
    def stopped(self) -> bool:
        return self._filter.stopped

    def push(self, token: int) -> str:
        text = self._decoder.step(self._tokenizer, token) or ""
        return self._filter.push(text + self._names.get(token, ""))

    def finish(self) -> str:
        """The last text. Bytes of a code point that never became whole are dropped."""
        return self._filter.finish()


def _special_names(tokenizer: Tokenizer, wanted: Sequence[str]) -> dict[int, str]:
    """Those of the names that the decoder leaves out; the others it says itself."""
    added = tokenizer.get_added_tokens_decoder()
    ids = {name: tokenizer.token_to_id(name) for name in wanted}
    return {token: name for name, token in ids.items() if token in added and added[token].special}
