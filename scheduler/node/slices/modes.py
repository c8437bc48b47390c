"""MIG mode, switched on GPUs on which nothing runs. What is pending is not there yet."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from gpuruntime.protocol import Device, ObservedSlice
from scheduler.node.providers.base import CutCode, CutError, Cutter, MigMode
from scheduler.node.slices import words
from scheduler.node.slices.mig import why_not
from scheduler.node.slices.model import Outcome, Retries, label

log = structlog.get_logger(__name__)


class MigModes:
    """Raises ``CutError`` where the mode cannot even be asked."""

    def __init__(self, cutter: Cutter, retries: Retries) -> None:
        self._cutter = cutter
        self._retries = retries

    def see_to(self, gpu: Device, enable: bool, left: Sequence[ObservedSlice]) -> Outcome | None:
        """Switches it where it is not as it must be; what there is to say while it is not. ``left``: what is there
        beside what is wanted.
        """
        try:
            mode = self._cutter.mig_mode(gpu.uuid)
        except CutError as error:
            if error.code is CutCode.NOT_SUPPORTED and not enable:
                return None
            raise
        if mode.current == enable:
            return None
        return self._in_the_way(gpu, enable, mode, left) or self._switch(gpu, enable)

    def _in_the_way(self, gpu: Device, enable: bool, mode: MigMode, left: Sequence[ObservedSlice]) -> Outcome | None:
        if mode.pending == enable:
            return Outcome("failed", words.needs_reset(label(gpu), enable))
        if any(one.state == "foreign" for one in left):
            return Outcome("failed", words.foreign_in_mode(label(gpu)))
        if left or self._cutter.processes(gpu.uuid):
            return Outcome("creating", words.not_idle(label(gpu)))
        return None

    def _switch(self, gpu: Device, enable: bool) -> Outcome | None:
        name = f"{gpu.uuid} MIG mode"
        if reason := self._retries.waits(name):
            return Outcome("failed", reason)
        try:
            mode = self._cutter.set_mig_mode(gpu.uuid, enable)
        except CutError as error:
            self._retries.failed(name, why_not(gpu, error))
            return Outcome("failed", why_not(gpu, error))
        self._retries.worked(name)
        log.info("MIG mode set", device=gpu.uuid, enabled=enable, pending=mode.current != enable)
        return None if mode.current == enable else Outcome("failed", words.needs_reset(label(gpu), enable))
