"""How deep what a client nests may be: schemas and parameters are walked by code that calls itself.

JSON's reader stops at Python's own limit; what it just lets through is too deep for whoever walks it next.
"""

from __future__ import annotations

from gpuruntime.openai_api import BadBody, ChatBody, SamplingBody

MAX_DEPTH = 100


def check_depth(body: SamplingBody) -> None:
    """Raises ``BadBody`` with the field that is nested deeper than ``MAX_DEPTH``."""
    nested: dict[str, object] = {"structured_outputs": body.structured_outputs}
    if isinstance(body, ChatBody):
        nested["response_format"] = body.response_format
        for index, tool in enumerate(body.tools or []):
            nested[f"tools[{index}].function.parameters"] = tool.function.parameters
    for field, value in nested.items():
        if value is not None and is_deep(value):
            raise BadBody(f"Invalid '{field}': it is nested deeper than {MAX_DEPTH} levels.", field)


def is_deep(value: object) -> bool:
    """Level by level, without a call of itself."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
        if not inner:
            return False
        level = inner
    return True
