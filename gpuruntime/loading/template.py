"""Chat templates, which come with the model and are therefore not trusted.

They render in jinja2's immutable sandbox with limits: a deadline checked in every loop and macro, a size for the
output and for every string that an operator or a filter builds. What Hugging Face's templates expect is there:
``raise_exception``, ``strftime_now``, ``tojson`` that does not escape HTML, loop controls, the special tokens.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_RENDER_S = 1.0
MAX_OUTPUT_CHARS = 8 << 20
MAX_NUMBER = 100_000
_WIDTH_FILTERS = ("center", "indent", "format", "wordwrap", "batch", "slice", "round")


class TemplateRefused(ValueError):
    """The template itself, or its limits, refuse these messages."""


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox with limits; ``deadline_s`` is on the monotonic clock and set for each rendering."""

    intercepted_binops = frozenset(["*", "**", "+", "%"])

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        self.deadline_s = 0.0
        self.filters["tojson"] = _to_json
        for name in _WIDTH_FILTERS:
            self.filters[name] = _bounded(self.filters[name])
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now
        self.globals["_berth_tick"] = self._tick
        self.globals["_berth_concat"] = _concat

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _guard(super()._parse(source, name, filename))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" or (operator == "*" and not _is_small(left, right)):
            raise SecurityError(f"operands of {operator} are too large")
        if operator == "%" and isinstance(left, str | bytes):
            raise SecurityError("string formatting with % is not available")
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, str | list) and len(result) > MAX_OUTPUT_CHARS:
            raise SecurityError("a value grew too large")
        return result

    def call(self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        _check_numbers(args, kwargs)
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str) and getattr(__obj, "__name__", "") == "replace":
            _check_replace(owner, args)
        return super().call(__context, __obj, *args, **kwargs)

    def _tick(self) -> str:
        if time.monotonic() > self.deadline_s:
            raise SecurityError(f"rendering took longer than {MAX_RENDER_S:g} s")
        return ""


class ChatTemplate:
    """One compiled template. Not safe for use from two threads at once."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """Compiles ``source``; raises ``ValueError`` when it is no valid template."""
        self._environment = _Environment()
        self._special_tokens = dict(special_tokens)
        try:
            self._template = self._environment.from_string(source)
        except TemplateError as error:
            raise ValueError(f"the chat template does not compile: {error}") from error

    def render(self, messages: list[dict[str, Any]], tools: Sequence[dict[str, Any]] = ()) -> str:
        """The prompt's text, ending where the assistant begins. Raises ``TemplateRefused``."""
        self._environment.deadline_s = time.monotonic() + MAX_RENDER_S
        parts: list[str] = []
        size = 0
        try:
            for part in self._template.generate(
                messages=messages,
                add_generation_prompt=True,
                tools=list(tools) or None,
                documents=None,
                **self._special_tokens,
            ):
                size += len(part)
                if size > MAX_OUTPUT_CHARS:
                    raise SecurityError(f"the prompt is longer than {MAX_OUTPUT_CHARS} characters")
                parts.append(part)
        except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            raise TemplateRefused(f"the model's chat template refused the messages: {error}") from error
        except (MemoryError, RecursionError) as error:
            raise TemplateRefused("the model's chat template ran out of memory or depth") from error
        return "".join(parts)


def _guard(template: nodes.Template) -> nodes.Template:
    """Puts a deadline check into every loop and macro and a size check into every ``~``."""
    for block in template.find_all((nodes.For, nodes.Macro, nodes.CallBlock)):
        tick = nodes.Call(nodes.Name("_berth_tick", "load"), [], [], None, None)
        body: list[nodes.Node] = getattr(block, "body")  # noqa: B009 - all three kinds have one, their base has not
        body.insert(0, nodes.Output([tick]))
    _replace_concats(template)
    return template


def _replace_concats(node: nodes.Node) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, list):
            setattr(node, field, [_without_concat(item) for item in value])
        else:
            setattr(node, field, _without_concat(value))
    for child in node.iter_child_nodes():
        _replace_concats(child)


def _without_concat(value: Any) -> Any:
    if not isinstance(value, nodes.Concat):
        return value
    return nodes.Call(nodes.Name("_berth_concat", "load"), list(value.nodes), [], None, None)


def _concat(*parts: Any) -> str:
    texts = [str(part) for part in parts]
    if sum(map(len, texts)) > MAX_OUTPUT_CHARS:
        raise SecurityError("a string grew too large")
    return "".join(texts)


def _is_small(left: Any, right: Any) -> bool:
    sizes = [len(item) if hasattr(item, "__len__") else abs(item) for item in (left, right)]
    return bool(sizes[0] * sizes[1] <= MAX_OUTPUT_CHARS)


def _check_numbers(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    for value in (*args, *kwargs.values()):
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            raise SecurityError(f"the number {value} is too large an argument")


def _check_replace(text: str, args: tuple[Any, ...]) -> None:
    grown = len(args[1]) if len(args) > 1 and isinstance(args[1], str) else 0
    if (len(text) + 1) * grown > 16 * MAX_OUTPUT_CHARS:
        raise SecurityError("replace would build too large a string")


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*args: Any, **kwargs: Any) -> Any:
        _check_numbers(args, kwargs)
        return function(*args, **kwargs)

    # jinja2 marks filters that want the environment or context by attributes of the function.
    checked.__dict__.update(function.__dict__)
    return checked


def _raise_exception(message: Any) -> NoReturn:
    raise TemplateError(str(message))


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    if indent is not None and indent > 16:
        raise SecurityError(f"indent {indent} is too large")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, sort_keys=bool(options.get("sort_keys")))
