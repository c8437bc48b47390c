"""Messages to token ids, with the model's own tokenizer and chat template; no torch, no transformers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from gpuruntime.backend import BadPrompt
from gpuruntime.loading.template import ChatTemplate, TemplateRefused
from gpuruntime.models.config import parse_token_ids, read_json
from gpuruntime.tools.formats import THINK, thinks, tool_format

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")
# U+10FFFE is no character, so no client's text holds it by accident, and json keeps it as it is.
_MARK = "\U0010fffe"
_MARK_TOKENS = 16  # as many as a mark of reasoning and the line behind it may take


class ChatTokenizer:
    """The tokenizer of one model directory.

    Special tokens that a client types inside a message stay text: each is swapped for a mark before the template
    runs, and the marked stretches are encoded with special tokens switched off. Only messages that contain one pay.
    Not safe for use from two threads at once.
    """

    def __init__(self, model_dir: Path) -> None:
        path = model_dir / "tokenizer.json"
        if not path.is_file():
            raise ValueError(f"{model_dir}: no tokenizer.json")
        try:
            self.tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises bare Exception
            raise ValueError(f"{path}: not a valid tokenizer: {error}") from error
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        settings_path = model_dir / "tokenizer_config.json"
        settings = read_json(settings_path) if settings_path.is_file() else {}
        self.special_tokens = {name: text for name in _TOKEN_NAMES if (text := _token_text(settings.get(name)))}
        self.eos_token_ids = self._end_ids(model_dir)
        source = template_source(model_dir)
        self.tool_format = tool_format(source)
        self.thinks = thinks(source)
        self._template = ChatTemplate(source, self.special_tokens)
        added = self.tokenizer.get_added_tokens_decoder().values()
        control = [token.content for token in added if token.special and token.content]
        longest_first = sorted(control, key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, longest_first))) if control else None

    def encode_chat(self, messages: list[dict[str, Any]], tools: Sequence[dict[str, Any]] = ()) -> tuple[int, ...]:
        """Token ids of the conversation, ending where the assistant begins. Raises ``BadPrompt``."""
        marked: list[str] = []
        shaped = [self._shape(index, message, marked) for index, message in enumerate(messages)]
        if not shaped:
            raise BadPrompt("messages must not be empty", "messages")
        try:
            text = self._template.render(shaped, self._marked(list(tools), marked))
        except TemplateRefused as error:
            raise BadPrompt(str(error), "messages") from error
        ids: list[int] = []
        for index, piece in enumerate(text.split(_MARK)):
            if index % 2 == 0:
                ids += self.tokenizer.encode(piece, add_special_tokens=False).ids
            else:
                ids += self._encode_plain(marked[int(piece)])
        return tuple(ids)

    def ends_thinking(self, ids: Sequence[int]) -> bool:
        """Whether a prompt has opened the model's reasoning, as some templates do."""
        end = str(self.tokenizer.decode(list(ids[-_MARK_TOKENS:]), skip_special_tokens=False))
        return self.thinks and end.rstrip().endswith(THINK[0])

    def _end_ids(self, model_dir: Path) -> tuple[int, ...]:
        """Every id that ends a turn: of generation_config.json, of config.json and the tokenizer's eos_token."""
        found: list[int] = []
        for name in ("generation_config.json", "config.json"):
            if (model_dir / name).is_file():
                found += parse_token_ids(read_json(model_dir / name).get("eos_token_id"))
        end = self.special_tokens.get("eos_token")
        if end is not None and (token := self.tokenizer.token_to_id(end)) is not None:
            found.append(token)
        return tuple(dict.fromkeys(found))

    def _shape(self, index: int, message: dict[str, Any], marked: list[str]) -> dict[str, Any]:
        """A copy with plain string content: null is empty, a list of text parts is joined."""
        where = f"messages[{index}]"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise BadPrompt(f"{where}.role must be one of {', '.join(_ROLES)}", f"{where}.role")
        content = message.get("content")
        if content is None:
            text = ""
        elif isinstance(content, str):
            text = content
        elif isinstance(content, list):
            text = "".join(_part_text(part, f"{where}.content[{number}]") for number, part in enumerate(content))
        else:
            raise BadPrompt(f"{where}.content must be a string or a list of text parts", f"{where}.content")
        shaped = {**message, "content": self._mark_control(text, marked)}
        if calls := message.get("tool_calls"):
            shaped["tool_calls"] = self._marked(calls, marked)
        return shaped

    def _marked(self, value: Any, marked: list[str]) -> Any:
        """A copy of JSON in which no text holds a special token."""
        if isinstance(value, str):
            return self._mark_control(value, marked)
        if isinstance(value, list):
            return [self._marked(item, marked) for item in value]
        if isinstance(value, dict):
            return {self._mark_control(key, marked): self._marked(item, marked) for key, item in value.items()}
        return value

    def _mark_control(self, text: str, marked: list[str]) -> str:
        def mark(match: re.Match[str]) -> str:
            marked.append(match.group())
            return f"{_MARK}{len(marked) - 1}{_MARK}"

        text = text.replace(_MARK, "\ufffd")
        return self._control.sub(mark, text) if self._control else text

    def _encode_plain(self, text: str) -> list[int]:
        self.tokenizer.encode_special_tokens = True
        try:
            ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        finally:
            self.tokenizer.encode_special_tokens = False
        return ids


def _part_text(part: Any, where: str) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    raise BadPrompt(f"{where}: only text parts are supported, found {kind!r}", where)


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def template_source(model_dir: Path) -> str:
    """A model directory's chat template. Raises ``ValueError`` where it has none."""
    path = model_dir / "chat_template.jinja"
    if path.is_file():
        return path.read_text("utf-8")
    settings_path = model_dir / "tokenizer_config.json"
    template = read_json(settings_path).get("chat_template") if settings_path.is_file() else None
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    if not isinstance(template, str):
        raise ValueError(
            f"{model_dir}: no chat template (chat_template.jinja or chat_template in tokenizer_config.json)"
        )
    return template
