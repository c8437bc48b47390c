"""Which types and constants a kernel is compiled with: what the engine launches, written so that no GPU is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Configuration:
    """One kernel with the types of its arguments.

    name: what the report calls it, unique. kernel: the ``triton.jit`` function. signature: argument -> Triton's name of
    its type (``*bf16``, ``i32``, ``fp32``) for all that are not constants. constants: the ``constexpr`` arguments, and
    arguments that are None. multiples_of_16: integer arguments that a launch would find divisible by 16; pointers
    always are. dot: whether its tensor-core instructions are demanded. oldest: the first compute capability with all
    the types that it uses. elsewhere: by compute capability, what is launched there instead, under the same name.
    """

    name: str
    kernel: Any
    signature: Mapping[str, str]
    constants: Mapping[str, Any] = field(default_factory=dict)
    multiples_of_16: tuple[str, ...] = ()
    num_warps: int = 4
    num_stages: int = 2
    dot: bool = False
    oldest: int = 80
    elsewhere: Mapping[int, Configuration] = field(default_factory=dict)
