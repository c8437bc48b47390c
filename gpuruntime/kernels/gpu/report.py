"""What every kernel becomes on each architecture, found without a GPU: ``make kernels-report``.

Triton compiles for a named target on any machine, and the tool that ships with it reads registers and the stack from
the result. Shared memory is Triton's own figure, for it is asked for at launch. Nothing here says how fast a kernel is.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gpuruntime.kernels.gpu import (
    activation,
    attention_configurations,
    kv_write,
    norm,
    quantized_linear,
    sampling,
    sampling_limits,
)
from gpuruntime.kernels.gpu.configuration import Configuration

DOCUMENT = Path(__file__).parents[3] / "docs" / "kernels.md"
ARCHITECTURES = (80, 90, 100)
DOTS = {80: "mma.sync", 90: "wgmma.mma_async", 100: "tcgen05.mma"}
_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
_BEGIN, _END = "<!-- made by make kernels-report -->", "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Compiled:
    """One configuration on one architecture.

    registers: a thread's. shared_bytes: a program's. spilled_bytes: a thread's stack, which holds what found no
    register. dots: tensor-core instructions in the PTX, of the kind that is the architecture's own (``DOTS``); mma:
    those of the older kind ``mma.sync``, for products of fewer rows than the newer kinds take.
    """

    configuration: Configuration
    architecture: int
    registers: int
    shared_bytes: int
    spilled_bytes: int
    dots: int
    mma: int


def configurations() -> tuple[Configuration, ...]:
    """Every kernel's, in the order of a decoder's layer."""
    return (
        *norm.configurations(),
        *kv_write.configurations(),
        *attention_configurations.configurations(),
        *activation.configurations(),
        *quantized_linear.configurations(),
        *sampling_limits.configurations(),
        *sampling.configurations(),
    )


def compile_for(configuration: Configuration, architecture: int) -> Compiled:
    """Compiles for a compute capability such as 90. Raises what the compiler raises."""
    configuration = configuration.elsewhere.get(architecture, configuration)
    names = configuration.kernel.arg_names
    signature = {name: configuration.signature.get(name, "constexpr") for name in names}
    aligned = [
        (index,)
        for index, name in enumerate(names)
        if signature[name].startswith("*") or name in configuration.multiples_of_16
    ]
    source = ASTSource(
        configuration.kernel,
        signature,
        dict(configuration.constants),
        {index: [["tt.divisibility", 16]] for index in aligned},
    )
    options = {"num_warps": configuration.num_warps, "num_stages": configuration.num_stages}
    kernel = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=options)
    usage = _resources(kernel.asm["cubin"])
    ptx = kernel.asm["ptx"]
    return Compiled(
        configuration=configuration,
        architecture=architecture,
        registers=usage["REG"],
        shared_bytes=kernel.metadata.shared,
        spilled_bytes=usage["STACK"],
        dots=_count(DOTS[architecture], ptx),
        mma=_count("mma.sync", ptx),
    )


def compile_all(chosen: Iterable[Configuration] | None = None) -> list[Compiled]:
    """Each of ``chosen`` (None: all) on each architecture that has its types."""
    return [
        compile_for(configuration, architecture)
        for configuration in (configurations() if chosen is None else chosen)
        for architecture in ARCHITECTURES
        if architecture >= configuration.oldest
    ]


def table(rows: Iterable[Compiled]) -> str:
    """Markdown: a line a configuration, a column an architecture, one cell for what the compiler gave it."""
    cells: dict[str, dict[int, str]] = {}
    for row in rows:
        cells.setdefault(row.configuration.name, {})[row.architecture] = _cell(row)
    head = ["configuration", *(f"sm_{architecture}" for architecture in ARCHITECTURES)]
    lines = [head, ["---"] * len(head)]
    lines += [[name, *(found.get(each, "not supported") for each in ARCHITECTURES)] for name, found in cells.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(document: Path = DOCUMENT) -> None:
    """Puts the table between the document's two marks. Raises ``ValueError`` where they are missing."""
    text = document.read_text("utf-8")
    if text.count(_BEGIN) != 1 or text.count(_END) != 1:
        raise ValueError(f"{document}: the table's marks are missing: {_BEGIN} ... {_END}")
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    document.write_text(f"{before}{_BEGIN}\n\n{table(compile_all())}\n\n{_END}{after}", "utf-8")


def _cell(row: Compiled) -> str:
    parts = [f"{row.registers} regs"]
    if row.shared_bytes:
        parts.append(f"{row.shared_bytes / 1024:.3g} KiB" if row.shared_bytes >= 1024 else f"{row.shared_bytes} B")
    if row.spilled_bytes:
        parts.append(f"**{row.spilled_bytes} B spilled**")
    if row.dots:
        parts.append(f"{row.dots} {DOTS[row.architecture].split('.')[0]}")
    elif row.mma:
        parts.append(f"{row.mma} mma")
    return ", ".join(parts)


def _resources(cubin: bytes) -> dict[str, int]:
    """``REG``, ``STACK`` and the like of the one kernel in ``cubin``."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(_CUOBJDUMP), "-res-usage", file.name]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in re.findall(r"\b([A-Z]+):(\d+)", output)}


def _count(instruction: str, ptx: str) -> int:
    return len(re.findall(rf"^\s*(?:@\S+\s+)?{re.escape(instruction)}\b", ptx, flags=re.MULTILINE))


if __name__ == "__main__":
    write()
