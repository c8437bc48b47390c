"""Chat frames of an answer that is read on its way out: tool calls and reasoning stand apart from the content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from gpuruntime.backend import Delta
from gpuruntime.door.choice import Choice
from gpuruntime.door.frames import ChatFrames, Envelope, encode
from gpuruntime.door.logprobs import TokenBytes, chat_logprobs
from gpuruntime.tools.answer import AnswerParser
from gpuruntime.tools.events import CallArguments, CallBegins, Content, Event, Reasoning
from gpuruntime.tools.formats import ToolFormat

_ID_DIGITS = 24


class _Reading:
    """One choice's answer as far as it is read. ``calls``: the ids of those that began."""

    def __init__(self, parser: AnswerParser) -> None:
        self.parser = parser
        self.calls: list[str] = []
        self.dropping = False


class ToolFrames(ChatFrames):
    """``form``: how the model writes the ``tools``, which are their names; None: no tools are offered.

    parallel: whether more than one call may be made; the others are left out, as OpenAI's field asks. A call's id
    follows from the answer's, so that an answer that another replica goes on with has the same.
    """

    def __init__(
        self,
        envelope: Envelope,
        token_bytes: TokenBytes,
        *,
        logprobs: bool,
        form: ToolFormat | None,
        tools: Sequence[str],
        thinks: bool,
        parallel: bool,
    ) -> None:
        super().__init__(envelope, token_bytes, logprobs=logprobs)
        self._form = form
        self._tools = tools
        self._thinks = thinks
        self._parallel = parallel
        self._readings: dict[int, _Reading] = {}

    def text(self, choice: Choice, delta: Delta) -> bytes:
        reading = self._reading(choice)
        parts = self._deltas(choice, reading, reading.parser.push(delta.text))
        logprobs = b"null"
        if self._logprobs and delta.logprobs:
            content = encode(chat_logprobs(delta.logprobs, self._token_bytes))
            logprobs = b'{"content":' + content + b',"refusal":null}'
        if not parts and (logprobs != b"null" or (self._envelope.continuous and delta.new_tokens)):
            parts = [{}]  # nothing to show yet, but something to count
        frames = [self._frame(choice.index, encode(part), logprobs=b"null") for part in parts[1:]]
        return b"".join([self._frame(choice.index, encode(part), logprobs=logprobs) for part in parts[:1]] + frames)

    def finish(self, choice: Choice) -> bytes:
        reading = self._reading(choice)
        rest = self._deltas(choice, reading, reading.parser.finish())
        frames = [self._frame(choice.index, encode(part)) for part in rest]
        reason = self._reason(choice, bool(reading.calls)).encode()
        return b"".join([*frames, self._frame(choice.index, b"{}", reason=b'"%s"' % reason)])

    def _choice(self, choice: Choice) -> dict[str, Any]:
        shown = super()._choice(choice)
        reading = self._reading(choice)
        events = reading.parser.push("".join(choice.texts)) + reading.parser.finish()
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        calls: list[dict[str, Any]] = []
        for part in self._deltas(choice, reading, events):
            for name, value in part.items():
                if name != "tool_calls":
                    message[name] = (message.get(name) or "") + value
                elif "id" in value[0]:
                    calls.append({**value[0]})
                    del calls[-1]["index"]
                else:
                    calls[-1]["function"]["arguments"] += value[0]["function"]["arguments"]
        if calls:
            message["tool_calls"] = calls
        elif message["content"] is None:
            message["content"] = ""
        return shown | {"message": message, "finish_reason": self._reason(choice, bool(calls))}

    def _reason(self, choice: Choice, called: bool) -> str:
        reason = choice.finish_reason or "stop"
        return "tool_calls" if called and reason == "stop" else reason

    def _reading(self, choice: Choice) -> _Reading:
        if choice.index not in self._readings:
            # What follows a grammar follows it from the first token on.
            thinking = self._thinks and choice.source.prompt.thinking and choice.params.grammar is None
            parser = AnswerParser(self._form, self._tools, thinks=self._thinks, thinking=thinking)
            self._readings[choice.index] = _Reading(parser)
        return self._readings[choice.index]

    def _deltas(self, choice: Choice, reading: _Reading, events: Sequence[Event]) -> list[dict[str, Any]]:
        """The events as OpenAI's deltas; reasoning as vLLM's and DeepSeek's ``reasoning_content``."""
        deltas: list[dict[str, Any]] = []
        for event in events:
            if isinstance(event, Content):
                deltas.append({"content": event.text})
            elif isinstance(event, Reasoning):
                deltas.append({"reasoning_content": event.text})
            elif isinstance(event, CallBegins):
                reading.dropping = bool(reading.calls) and not self._parallel
                if not reading.dropping:
                    reading.calls.append(self._call_id(choice.index, len(reading.calls)))
                    function = {"name": event.name, "arguments": ""}
                    call = {"id": reading.calls[-1], "type": "function", "function": function}
                    deltas.append({"tool_calls": [{"index": len(reading.calls) - 1, **call}]})
            elif isinstance(event, CallArguments) and not reading.dropping:
                more = {"index": len(reading.calls) - 1, "function": {"arguments": event.text}}
                deltas.append({"tool_calls": [more]})
        return deltas

    def _call_id(self, choice: int, number: int) -> str:
        seed = f"{self._envelope.fields['id']}/{choice}/{number}".encode()
        digits = hashlib.sha256(seed).hexdigest()
        if self._form is not None and self._form.short_ids:
            return digits[:9]
        return f"call_{digits[:_ID_DIGITS]}"
