"""From generated text to content, reasoning and tool calls, the same however the text is cut into pieces.

Nothing that the model wrote is lost: what begins like a call and is none comes out as content. Arguments go out as
they come, so an answer that ends inside them, or goes wrong there, has given them as far as they were.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from gpuruntime.tools.call_reader import WHITESPACE, ArgumentsReader, CallReader, NoCall
from gpuruntime.tools.events import CallBegins, Content, Event, Reasoning
from gpuruntime.tools.formats import THINK, ToolFormat
from gpuruntime.tools.lexer import Lexeme, Lexer

_BETWEEN = WHITESPACE + ",;[]"
_ARGS = "[ARGS]"


class _In(Enum):
    START = "nothing but whitespace yet"
    REASONING = "between the marks of reasoning"
    CONTENT = "content"
    CALLS = "behind the mark of calls, or in a bare call"


class AnswerParser:
    """``push`` text as it comes, then ``finish``.

    form: None where no tools are offered. tools: their names. thinks: the model marks its reasoning; ``thinking``: the
    prompt has already opened it.
    """

    def __init__(
        self, form: ToolFormat | None, tools: Collection[str] = (), *, thinks: bool = False, thinking: bool = False
    ) -> None:
        self._form = form
        self._tools = tools
        self._lexer = Lexer((*(form.marks if form else ()), *(THINK if thinks or thinking else ())))
        self._in = _In.REASONING if thinking else _In.START
        self._space = ""  # shown only if content follows it
        self._after_mark = False
        self._bare = False
        self._reader: CallReader | ArgumentsReader | None = None
        self._name: str | None = None  # of a call that names it outside of JSON, as far as it came
        self._raw = ""  # since the last thing that was certain
        self._empty = True  # no call since the last mark
        self._called = False

    def push(self, text: str) -> list[Event]:
        events: list[Event] = []
        for lexeme in self._lexer.push(text):
            self._take(lexeme, events)
        return joined(events)

    def finish(self) -> list[Event]:
        """What was held back until the text's end."""
        events: list[Event] = []
        for lexeme in self._lexer.finish():
            self._take(lexeme, events)
        if self._in is _In.CALLS:
            self._leave(events)
        if self._space and not self._called and not self._after_mark:
            events.append(Content(self._space))
        self._space = ""
        return joined(events)

    def _take(self, lexeme: Lexeme, events: list[Event]) -> None:
        if lexeme.is_mark and self._mark(lexeme.text, events):
            return
        if self._in is _In.REASONING:
            events.append(Reasoning(lexeme.text))
            return
        for at, char in enumerate(lexeme.text):
            if self._in is _In.CONTENT:
                self._content(lexeme.text[at:], events)
                return
            if self._in is _In.START:
                self._start(char, events)
            else:
                self._call(char, events)

    def _mark(self, mark: str, events: list[Event]) -> bool:
        """Whether the mark means something here; else it is text."""
        if mark in THINK or self._in is _In.REASONING:
            return self._thought(mark)
        if self._in is _In.CALLS and self._reader is not None and self._reader.in_string:
            return False
        if self._form is not None and mark == self._form.opens:
            if self._in is _In.CALLS:
                self._leave(events)
            self._raw = mark if self._after_mark else self._space + mark
            self._in, self._bare, self._empty = _In.CALLS, False, True
            self._space, self._after_mark = "", False
            return True
        closes = self._in is _In.CALLS
        if closes:
            self._raw += mark
            self._leave(events)
        return closes

    def _thought(self, mark: str) -> bool:
        """Reasoning stands first or not at all."""
        if self._in is _In.REASONING and mark == THINK[1]:
            self._in, self._after_mark = _In.START, True
            return True
        begins = self._in is _In.START and mark == THINK[0]
        if begins:
            self._in, self._space = _In.REASONING, ""
        return begins

    def _start(self, char: str, events: list[Event]) -> None:
        if char in WHITESPACE:
            self._space += char
        elif char == "{" and self._form is not None and self._form.bare:
            self._raw, self._space = self._space, ""
            self._in, self._bare, self._empty = _In.CALLS, True, True
            self._call(char, events)
        else:
            self._in = _In.CONTENT
            self._content(char, events)

    def _content(self, text: str, events: list[Event]) -> None:
        """Whitespace waits for what comes: before a call, behind one and behind reasoning it is nobody's."""
        shown = text.rstrip(WHITESPACE)
        if shown:
            if self._after_mark:
                shown, self._space = shown.lstrip(WHITESPACE), ""
            events.append(Content(self._space + shown))
            self._space, self._after_mark = "", False
        self._space += text[len(text.rstrip(WHITESPACE)) :]

    def _call(self, char: str, events: list[Event]) -> None:
        if self._reader is None and not self._begins(char, events):
            return
        reader, before = self._reader, len(events)
        if reader is None:
            return
        self._raw += char
        try:
            reader.feed(char, events)
        except NoCall:
            self._give_back(char if reader.begun else self._raw, events)
            return
        if len(events) > before:
            self._called, self._empty, self._raw = True, False, ""
        if reader.done:
            self._reader, self._raw = None, ""

    def _begins(self, char: str, events: list[Event]) -> bool:
        """Between calls: whether ``char`` is a new reader's to take."""
        if self._name is None and char in _BETWEEN:
            self._raw += char if self._empty else ""
            return False
        if char == "{":
            name, self._name = self._name, None
            if name is None:
                self._reader = CallReader(self._tools if self._bare else None)
            else:
                self._reader = ArgumentsReader(name.removesuffix(_ARGS).strip())
            return True
        self._raw += char
        if self._form is not None and self._form.named and not self._bare:
            self._name = (self._name or "") + char
        else:
            self._give_back(self._raw, events)
        return False

    def _leave(self, events: list[Event]) -> None:
        """At a mark: a call that was not read to its end was none, if nothing of it is out."""
        unread = self._name is not None if self._reader is None else not self._reader.begun
        if unread or self._empty:
            self._give_back(self._raw, events)
        else:
            self._in, self._reader, self._after_mark = _In.CONTENT, None, True

    def _give_back(self, text: str, events: list[Event]) -> None:
        """What cannot be a call is content, from the mark on; of a call that is partly out only what went wrong."""
        self._in, self._reader, self._name, self._raw = _In.CONTENT, None, None, ""
        self._after_mark = not self._empty
        self._content(text, events)


def joined(events: list[Event]) -> list[Event]:
    """Neighbours of one kind as one."""
    out: list[Event] = []
    for event in events:
        if out and type(out[-1]) is type(event) and not isinstance(event, CallBegins):
            out[-1] = type(event)(out[-1].text + event.text)  # type: ignore[union-attr]
        else:
            out.append(event)
    return out
