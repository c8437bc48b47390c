"""How families of models write tool calls, told from their chat templates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """``opens`` stands before a call and ``closes`` behind it, where there is such a mark.

    bare: an answer that begins with a call's object is a call without any mark, if its name is one of the tools'.
    short_ids: the template takes only ids of nine letters and digits.
    named: the name may stand before the arguments, outside of JSON: ``[TOOL_CALLS]f[ARGS]{...}``.
    """

    name: str
    opens: str
    closes: str | None = None
    bare: bool = False
    named: bool = False
    short_ids: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.opens,) if self.closes is None else (self.opens, self.closes)


HERMES = ToolFormat("hermes", "<tool_call>", "</tool_call>")
MISTRAL = ToolFormat("mistral", "[TOOL_CALLS]", named=True, short_ids=True)
LLAMA = ToolFormat("llama3", "<|python_tag|>", bare=True)
THINK = ("<think>", "</think>")


def tool_format(template: str) -> ToolFormat | None:
    """The format that a chat template asks its model for; None where it knows nothing of tools.

    Llama 3's says nothing but ``"parameters"``: it has the model answer with the bare object.
    """
    if "tools" not in template:
        return None
    for one in (HERMES, MISTRAL):
        if one.opens in template:
            return one
    return LLAMA if '"parameters"' in template else None


def thinks(template: str) -> bool:
    """Whether the model marks its reasoning off from its answer."""
    return THINK[1] in template
