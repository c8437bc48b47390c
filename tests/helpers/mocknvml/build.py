"""Builds the mock with gcc, once for every content of its sources, and lets the real nvidia-ml-py use it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from scheduler.geometry.boards import Board, Profile, boards

HERE = Path(__file__).parent
ARCHITECTURES = {"ampere": 7, "hopper": 9, "blackwell": 10}  # NVML_DEVICE_ARCH_*
# -O1: the mock is built when the tests run. Without a SONAME, so that a library of that name stays apart.
FLAGS = (
    "-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -Wno-missing-field-initializers"
    " -fPIC -fvisibility=hidden -shared -pthread"
)


def driver_order(found: Profile, units: int) -> list[int]:
    """The starts in the order in which the driver takes them when it is given none.

    NVIDIA's guide: on a board of eight units the smallest go to 6, then 4, so that a 3g that comes later finds no
    half; with a 3g in the upper half they go to 0, then 1. Others: 1g and 3g from the top, 2g and 4g from the bottom.
    """
    if found.size == 1 and units == 8:
        return [6, 4, 5, 0, 1, 2, 3]
    return sorted(found.starts, reverse=found.slices in (1, 3))


def board_tables() -> str:
    """The C file of all boards, from the same table as the scheduler's geometry."""
    tables, rows = [], []
    for number, found in enumerate(boards().values()):
        lines = ",\n".join(_profile(profile, found.mig.units) for profile in found.mig.profiles)
        tables.append(f"static const profile_t PROFILES_{number}[] = {{\n{lines}}};\n")
        rows.append(_board(found, number))
    return (
        '#include "state.h"\n\n'
        + "\n".join(tables)
        + "\nconst board_t BOARDS[] = {\n"
        + ",\n".join(rows)
        + "};\nconst uint32_t BOARD_COUNT = sizeof BOARDS / sizeof *BOARDS;\n"
    )


def _profile(found: Profile, units: int) -> str:
    starts = ", ".join(map(str, found.starts))
    prefer = ", ".join(map(str, driver_order(found, units)))
    beside = " | ".join(f"1u << {variant.upper()}" for variant in found.only_beside) or "0"
    return (
        f'    {{.name = "{found.name}", .id = {found.id}, .number = {found.enum}, .slices = {found.slices},'
        f" .size = {found.size}, .max_instances = {found.max_instances}, .sms = {found.sms},"
        f" .copy_engines = {found.copy_engines}, .decoders = {found.decoders}, .jpegs = {found.jpegs},"
        f" .ofas = {found.ofas}, .memory_mib = {found.memory_mib}, .variant = {found.variant.upper()},"
        f" .only_beside = {beside}, .start_count = {len(found.starts)}, .starts = {{{starts}}},"
        f" .prefer = {{{prefer}}}}}"
    )


def _board(found: Board, number: int) -> str:
    return (
        f'    {{.key = "{found.key}", .name = "{found.name}", .pci_device = 0x{found.pci_device_ids[0]},'
        f" .architecture = {ARCHITECTURES[found.architecture]}, .mode_needs_reset = {int(found.mig_mode_needs_reset)},"
        f" .units = {found.mig.units}, .sms = {found.sms},"
        f" .ofas = {found.mig.ofas}, .memory_mib = {found.memory_mib}, .profile_count = {len(found.mig.profiles)},"
        f" .profiles = PROFILES_{number}}}"
    )


@functools.cache
def library_path() -> Path:
    """The built libnvidia-ml.so.1. Its folder may be given as LD_LIBRARY_PATH to a process of its own."""
    tables = board_tables()
    sources = sorted(HERE.glob("*.c"))
    digest = hashlib.sha256((FLAGS + tables).encode())
    for source in sorted(HERE.glob("*.[ch]")):
        digest.update(source.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"mocknvml-{os.getuid()}-{digest.hexdigest()[:16]}"
    target = folder / "libnvidia-ml.so.1"
    if target.exists():
        return target
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("the mock of NVML needs gcc")
    with tempfile.TemporaryDirectory() as scratch:
        generated, built = Path(scratch, "boards.c"), Path(scratch, target.name)
        generated.write_text(tables)
        command = [compiler, *FLAGS.split(), "-I", str(HERE), "-o", str(built), str(generated), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the mock of NVML does not compile:\n{done.stderr}")
        # Two runs may build at the same time: each puts its own in place, both are the same.
        folder.mkdir(mode=0o700, exist_ok=True)
        half = folder / f"{target.name}.{os.getpid()}"
        shutil.copy(built, half)
        half.replace(target)
    return target


@functools.cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(library_path()))


def use_mock() -> None:
    """From here on nvidia-ml-py talks to the mock in this process; MOCK_NVML_STATE says to which machine."""
    import pynvml

    if pynvml.nvmlLib is not library():
        pynvml.nvmlLib = library()
        pynvml._nvmlGetFunctionPointer_cache.clear()
