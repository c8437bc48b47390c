"""The gateway that the tracing benchmark compares with is the same one, without its hooks."""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks.tracing_off import HOOKED, HOOKS, WithoutHooks

PLATFORM = Path(__file__).parents[2] / "platform"

SOURCE = """
trace = begin(tracing, headers)
exchange = Exchange(gateway, trace=trace)
class Exchange:
    def __init__(self, trace):
        self.gateway = gateway
        self._trace = trace
    def run(self):
        with self._trace.timed("route"):
            first()
        with carrying(replica), self._trace.calling(headers):
            second()
        self._trace.ended(judged)
"""
BARE = """
exchange = Exchange(gateway)
class Exchange:
    def __init__(self, trace):
        self.gateway = gateway
    def run(self):
        first()
        with carrying(replica):
            second()
"""


def test_only_the_hooks_are_taken_out() -> None:
    transformer = WithoutHooks()
    without = transformer.visit(ast.parse(SOURCE))
    assert ast.unparse(without) == ast.unparse(ast.parse(BARE))
    assert transformer.removed == 4


def test_every_hook_of_the_gateway_is_known() -> None:
    transformer, left = WithoutHooks(), ""
    for name in HOOKED:
        source = (PLATFORM / (name.replace(".", "/") + ".py")).read_text()
        left += ast.unparse(transformer.visit(ast.parse(source)))
    assert transformer.removed == HOOKS
    assert "_trace." not in left
    assert " begin(" not in left
