"""A few calls of NVML's, as tests make them again and again."""

from __future__ import annotations

from ctypes import byref
from typing import Any

import pynvml
from pynvml import NVMLError

INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, TIMEOUT, LOST, IN_USE, NO_ROOM = 2, 3, 4, 6, 10, 15, 19, 23
UNKNOWN = 999


def code(call: Any, *arguments: Any, **named: Any) -> int:
    """NVML's number for the call; 0 for a success."""
    try:
        call(*arguments, **named)
    except NVMLError as error:
        return int(error.value)
    return 0


def make(gpu: Any, profile_id: int, start: int, size: int) -> Any:
    placement = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile_id, byref(placement))


def device_of(instance: Any, width: int) -> Any:
    """Its MIG device, with a new compute instance of the profile ``width``."""
    made = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, width)
    return pynvml.nvmlComputeInstanceGetInfo(made).device


def start_of(instance: Any) -> int:
    return int(pynvml.nvmlGpuInstanceGetInfo(instance).placement.start)
