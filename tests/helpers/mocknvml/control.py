"""The machine behind the mock: makes it, and lets things happen to it that NVML itself never does.

    machine = Machine.create(tmp_path / "gpus", ["h100-sxm-80gb", "a30-24gb"])
    machine.activate()                   # this process's nvidia-ml-py now sees it
    machine.xid(0, 94, gi_id=3)

A GPU is named by its index or its UUID. Calls of other processes see every change at once.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from helpers.mocknvml.build import library, library_path, use_mock

NO_ID = 0xFFFFFFFF
XID, MIG_CONFIG_CHANGE = 0x8, 0x100
IN_USE, UNKNOWN = 19, 999
PLAIN = "plain"  # a GPU of no board in the table, without MIG

_u32, _i32, _u64, _i64, _text = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64, ctypes.c_char_p
_state = ctypes.c_void_p
_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "mock_create": (_u64, [_text]),
    "mock_open": (_state, [_text]),
    "mock_use": (None, [_text, _text]),
    "mock_close": (None, [_state]),
    "mock_add_board": (_i32, [_state, _text, _text]),
    "mock_add_plain": (_i32, [_state, _text, _text, _u32, _u64]),
    "mock_set": (_i32, [_state, _u32, _text, _u32]),
    "mock_get": (_i64, [_state, _u32, _text]),
    "mock_add_process": (_i32, [_state, _u32, _u32, _u32, _u64, _u32, _u32, _i64]),
    "mock_end_process": (None, [_state, _u32]),
    "mock_event": (None, [_state, _u32, _u64, _u64, _u32, _u32]),
    "mock_add_rule": (_i32, [_state, _text, _i32, _u32, _u32, _i64, _i64, _i64, _i64]),
    "mock_clear_rules": (None, [_state]),
    "mock_leak": (_u32, [_state, _u32, _u32, _i32]),
    "mock_work": (_u32, [_state, _u32, _u32, _u32]),
    "mock_samples": (_i32, [_state]),
    "mock_outside_create": (_u32, [_state, _u32, _u32, _u32, _u32]),
    "mock_outside_destroy": (_u32, [_state, _u32, _u32]),
    "mock_reset": (_u32, [_state, _u32]),
    "mock_driver_unload": (None, [_state]),
    "mock_driver_load": (None, [_state]),
    "mock_lock_and_die": (None, [_state]),
}


def _function(name: str) -> ctypes._NamedFuncPointer:
    function = getattr(library(), name)
    function.restype, function.argtypes = _SIGNATURES[name]
    return function


class MockError(RuntimeError):
    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: NVML's code {code}")
        self.code = code


class Machine:
    def __init__(self, path: Path, uuids: Sequence[str]) -> None:
        self.path = path
        self.uuids = list(uuids)
        self._state = _function("mock_open")(str(path).encode())
        if not self._state:
            raise FileNotFoundError(f"{path} is no state of the mock, or of another build of it")

    @classmethod
    def create(cls, path: Path, boards: Sequence[str]) -> Self:
        """A machine with these boards, by their keys; ``PLAIN`` is an L40S, which has no MIG."""
        if not _function("mock_create")(str(path).encode()):
            raise FileExistsError(f"cannot make {path}")
        machine = cls(path, [])
        for index, key in enumerate(boards):
            name = f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{path}/{index}')}"
            if key == PLAIN:
                arguments = (b"NVIDIA L40S", name.encode(), 0x26B9, 46068 << 20)
                made = machine._call("mock_add_plain", *arguments)
            else:
                made = machine._call("mock_add_board", key.encode(), name.encode())
            if made != index:
                raise ValueError(f"no board {key!r}, or too many GPUs")
            machine.uuids.append(name)
        return machine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _function("mock_close")(self._state)

    @property
    def environment(self) -> dict[str, str]:
        """For a process of its own that loads libnvidia-ml.so.1 as it always does."""
        return {"MOCK_NVML_STATE": str(self.path), "LD_LIBRARY_PATH": str(library_path().parent)}

    def activate(self, *, caps: str = "all") -> None:
        """From here on nvidia-ml-py sees this machine in this process, once it is initialised again. ``caps``: what the
        process may do, at once: none, monitor, config or all.
        """
        use_mock()
        _function("mock_use")(str(self.path).encode(), caps.encode())

    def _call(self, name: str, *arguments: object) -> int:
        return _function(name)(self._state, *arguments)

    def _checked(self, what: str, code: int) -> None:
        if code:
            raise MockError(what, code)

    def index(self, gpu: int | str) -> int:
        return self.uuids.index(gpu) if isinstance(gpu, str) else gpu

    # --- what the GPUs report -----------------------------------------------------------------------------------

    def set(self, gpu: int | str, **fields: int) -> None:
        """Fields of ``gpu_t`` in state.h, as ``temperature=91`` or ``remap_pending=1``."""
        for name, value in fields.items():
            if self._call("mock_set", self.index(gpu), name.encode(), value):
                raise KeyError(name)

    def get(self, gpu: int | str, name: str) -> int:
        value = self._call("mock_get", self.index(gpu), name.encode())
        if value < 0:
            raise KeyError(name)
        return value

    def enable_mig(self, gpu: int | str) -> None:
        """As it is after an operator's switching and reset."""
        self.set(gpu, mig_current=1, mig_pending=1)

    def xid(self, gpu: int | str, code: int, gi_id: int | None = None) -> None:
        instance, compute = (NO_ID, NO_ID) if gi_id is None else (gi_id, 0)
        self._call("mock_event", self.index(gpu), XID, code, instance, compute)

    def ecc(self, gpu: int | str, uncorrected: int) -> None:
        """So many more, and the event of one."""
        self.set(
            gpu,
            ecc_uncorrected=self.get(gpu, "ecc_uncorrected") + uncorrected,
            ecc_uncorrected_ever=self.get(gpu, "ecc_uncorrected_ever") + uncorrected,
        )
        self._call("mock_event", self.index(gpu), 0x2, 0, NO_ID, NO_ID)

    def fall_off(self, gpu: int | str) -> None:
        """It is not found on the bus any more (XID 79); a reload of the driver brings it back."""
        self.xid(gpu, 79)
        self.set(gpu, lost=1)

    # --- who is there -------------------------------------------------------------------------------------------

    def add_process(
        self, gpu: int | str, pid: int, size: int, gi_id: int | None = None, *, mps: bool = False, linger_s: float = 0.0
    ) -> None:
        """``size`` bytes held by ``pid``: until that process ends, or until ``end_process`` where none has that pid.
        ``linger_s``: how much longer than the process its memory is held.
        """
        instance = NO_ID if gi_id is None else gi_id
        checked = int(psutil.pid_exists(pid))
        self._call("mock_add_process", self.index(gpu), instance, pid, size, int(mps), checked, int(linger_s * 1e6))

    def end_process(self, pid: int) -> None:
        self._call("mock_end_process", pid)

    def leak(self, gpu: int | str, gi_id: int) -> None:
        """A monitor keeps a handle of the instance open, and nothing shows who."""
        self._checked("leak", self._call("mock_leak", self.index(gpu), gi_id, 1))

    def release(self, gpu: int | str, gi_id: int) -> None:
        self._checked("release", self._call("mock_leak", self.index(gpu), gi_id, -1))

    def work(self, gpu: int | str, gi_id: int, percent: int) -> None:
        """From now on the instance is so busy."""
        self._checked("work", self._call("mock_work", self.index(gpu), gi_id, percent))

    @property
    def samples(self) -> int:
        """Buffers for performance counters that were given out and not given back."""
        return self._call("mock_samples")

    def outside_create(self, gpu: int | str, profile_id: int, start: int, *, width: int | None = None) -> None:
        """Another tool makes an instance; its compute instance has ``width`` slices: None all, 0 there is none."""
        arguments = (self.index(gpu), profile_id, start, NO_ID if width is None else width)
        self._checked("outside_create", self._call("mock_outside_create", *arguments))

    def outside_destroy(self, gpu: int | str, gi_id: int) -> None:
        self._checked("outside_destroy", self._call("mock_outside_destroy", self.index(gpu), gi_id))

    # --- calls that fail or are slow ----------------------------------------------------------------------------

    def fail(
        self,
        symbol: str,
        code: int = UNKNOWN,
        *,
        times: int = 1,
        seconds: float = 0.0,
        gpu: int | str | None = None,
        after: bool = False,
    ) -> None:
        """``symbol`` (``*``: any) answers ``code``, so many ``times`` (-1: always) or for so many ``seconds``;
        ``after``: although it did its work.
        """
        self._rule(symbol, gpu, code, int(after), -1 if seconds else times, seconds, 0.0, 0.0)

    def slow(self, symbol: str, delay_s: float, spread_s: float = 0.0, *, gpu: int | str | None = None) -> None:
        """From now on it takes between ``delay_s`` and ``delay_s + spread_s`` longer."""
        self._rule(symbol, gpu, 0, 0, -1, 0.0, delay_s, spread_s)

    def stuck(self, gpu: int | str, seconds: float) -> None:
        """No instance of the GPU can be destroyed for so long, as after a process that dies slowly."""
        self.fail("nvmlGpuInstanceDestroy", IN_USE, seconds=seconds, gpu=gpu)

    def _rule(self, symbol: str, gpu: int | str | None, code: int, after: int, times: int, *seconds: float) -> None:
        index = -1 if gpu is None else self.index(gpu)
        microseconds = [int(value * 1e6) for value in seconds]
        if self._call("mock_add_rule", symbol.encode(), index, code, after, times, *microseconds) < 0:
            raise RuntimeError("too many rules")

    def clear_rules(self) -> None:
        self._call("mock_clear_rules")

    # --- resets -------------------------------------------------------------------------------------------------

    def reset(self, gpu: int | str) -> None:
        """``nvidia-smi --gpu-reset``. Raises ``MockError`` with IN_USE while anything runs there."""
        self._checked("reset", self._call("mock_reset", self.index(gpu)))

    def unload_driver(self) -> None:
        self._call("mock_driver_unload")

    def load_driver(self) -> None:
        self._call("mock_driver_load")

    def reload_driver(self) -> None:
        self.unload_driver()
        self.load_driver()

    reboot = reload_driver

    def lock_and_die(self) -> None:
        """Ends this process, with the state locked. For a child."""
        self._call("mock_lock_and_die")
        os.abort()
