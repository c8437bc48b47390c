"""Triton 3.6's interpreter with a current numpy.

The interpreter keeps a scalar as an array of one value, and takes a loop's bounds from it by ``int``, which numpy
refuses from 2.4 on.
"""

from __future__ import annotations

import os
from typing import Any


def is_interpreted() -> bool:
    """Whether kernels that are decorated in this process run in the interpreter."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def accept_array_bounds() -> None:
    """Lets a loop's bounds be values that a kernel computed."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patch(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch
