"""What is cut on simulated GPUs: the rules of the real boards over one JSON file, each call as slow as hardware.

The file outlives the agent. A reboot (another boot id) takes what a reboot takes: every instance, and MIG mode where
the board keeps it in its driver; one that changes it with a reset only keeps it, and takes up a mode that was pending.
"""

from __future__ import annotations

import fcntl
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec

from gpuruntime.process import process_start_time
from scheduler.geometry.boards import board
from scheduler.geometry.layouts import Layouts
from scheduler.node.paths import write_atomically
from scheduler.node.providers.base import CutCode, CutError, Instance, MigMode, Process, Resident, XidEvent
from scheduler.node.providers.injections import Injected

ASK_S = 0.001
CHANGE_S = 0.04
# What the driver keeps of an instance for itself before anything runs on it.
RESERVE_BYTES = 16 << 20


class _Made(msgspec.Struct, kw_only=True):
    gi_id: int
    profile_id: int
    start: int
    uuid: str = ""


class _Gpu(msgspec.Struct, kw_only=True):
    mig: bool = False
    pending: bool = False
    exclusive: bool = False
    made: list[_Made] = []


class _State(msgspec.Struct, kw_only=True):
    boot: str
    gpus: dict[str, _Gpu] = {}


class SimulatedCutter:
    """``boards``: of the devices that can be cut, by UUID; ``uuids``: of all, by index. ``modes``: MIG mode as an
    operator left it, by UUID. ``residents``: who runs there, which a driver would know. ``between``: called between the
    two halves of a making or a removal.
    """

    def __init__(
        self,
        path: Path,
        boards: Mapping[str, str],
        uuids: Sequence[str],
        injected: Injected,
        *,
        boot: str,
        modes: Mapping[str, bool] | None = None,
        ask_s: float = ASK_S,
        change_s: float = CHANGE_S,
    ) -> None:
        self._path = path
        self._boards = boards
        self._uuids = tuple(uuids)
        self._injected = injected
        self._boot = boot
        self.ask_s, self.change_s = ask_s, change_s
        self._xids_told = len(injected.read().xids)
        self.residents: tuple[Resident, ...] = ()
        self.between: Callable[[], None] = lambda: None
        if modes:
            self._begin(modes)

    def _begin(self, modes: Mapping[str, bool]) -> None:
        """The modes of the fleet file: once for good where a GPU takes them up at once, else at each start."""
        with self._locked() as state:
            for device_uuid, on in modes.items():
                known = state.gpus.get(device_uuid)
                is_so = known is not None and (known.mig, known.pending) == (on, on)
                if known is None or (self._keeps_mode(device_uuid) and not is_so and not known.made):
                    state.gpus[device_uuid] = _Gpu(mig=on, pending=on)
            self._save(state)

    # --- modes ----------------------------------------------------------------------------------------------------

    def mig_mode(self, device_uuid: str) -> MigMode:
        with self._state(device_uuid) as (_, gpu):
            return MigMode(current=gpu.mig, pending=gpu.pending)

    def modes(self, device_uuids: Iterable[str]) -> dict[str, MigMode]:
        """As ``mig_mode``, for a listing of devices: of several, at once, and of lost ones as well."""
        with self._locked() as state:
            gpus = {name: state.gpus.get(name, _Gpu()) for name in device_uuids}
        return {name: MigMode(current=gpu.mig, pending=gpu.pending) for name, gpu in gpus.items()}

    def set_mig_mode(self, device_uuid: str, enabled: bool) -> MigMode:
        with self._state(device_uuid, change=True) as (state, gpu):
            if gpu.mig == gpu.pending == enabled:
                return MigMode(current=enabled, pending=enabled)
            if gpu.made or self._processes(device_uuid, gpu):
                raise CutError(CutCode.IN_USE, "In use by another client (19)")
            gpu.pending = enabled
            if not self._keeps_mode(device_uuid):
                gpu.mig = enabled
            gpu.exclusive = gpu.exclusive and not gpu.mig
            self._save(state)
            return MigMode(current=gpu.mig, pending=gpu.pending)

    def set_exclusive(self, device_uuid: str, exclusive: bool) -> None:
        with self._state(device_uuid, change=True) as (state, gpu):
            if gpu.mig and exclusive:
                raise CutError(CutCode.NOT_SUPPORTED, "Not Supported in MIG mode (3)")
            gpu.exclusive = exclusive
            self._save(state)

    def is_exclusive(self, device_uuid: str) -> bool:
        with self._state(device_uuid) as (_, gpu):
            return gpu.exclusive

    # --- instances ------------------------------------------------------------------------------------------------

    def instances(self, device_uuid: str) -> list[Instance]:
        with self._state(device_uuid) as (_, gpu):
            return [self._instance(device_uuid, gpu, made) for made in gpu.made] if gpu.mig else []

    def create(self, device_uuid: str, profile_id: int, start: int) -> Instance:
        with self._state(device_uuid, change=True) as (state, gpu):
            if not gpu.mig:
                raise CutError(CutCode.NOT_SUPPORTED, "Not Supported: MIG mode is off (3)")
            made = next((m for m in gpu.made if (m.profile_id, m.start) == (profile_id, start)), None)
            if made is None:
                made = self._make(device_uuid, gpu, profile_id, start)
                self._save(state)
                self.between()
            if not made.uuid:
                made.uuid = f"MIG-{uuid.uuid4()}"
                self._save(state)
            return self._instance(device_uuid, gpu, made)

    def destroy(self, device_uuid: str, gi_id: int) -> None:
        with self._state(device_uuid, change=True) as (state, gpu):
            made = next((m for m in gpu.made if m.gi_id == gi_id), None)
            if made is None:
                return
            leaks = self._injected.read().leaks
            leaked = any(self._named(one.device) == device_uuid and one.gi_id == gi_id for one in leaks)
            if leaked or any(p.gi_id == gi_id for p in self._processes(device_uuid, gpu)):
                raise CutError(CutCode.IN_USE, "In use by another client (19)")
            made.uuid = ""
            self._save(state)
            self.between()
            gpu.made.remove(made)
            self._save(state)

    def _make(self, device_uuid: str, gpu: _Gpu, profile_id: int, start: int) -> _Made:
        rules = _rules(self._boards[device_uuid])
        cut = rules.cut
        try:
            profile = cut.profile_by_id(profile_id)
            placement = rules.placement(profile.name, start)
        except LookupError as error:
            raise CutError(CutCode.OTHER, f"Invalid Argument (2): {error}") from None
        there = rules.state_of((cut.profile_by_id(m.profile_id).name, m.start) for m in gpu.made)
        if not rules.can_add(there, placement):
            raise CutError(CutCode.NO_ROOM, "Insufficient Resources (23)")
        # Ids are nodes of a tree of halves: the whole is 0, its halves 1 and 2, their halves 3 to 6, and so on.
        gi_id = cut.units // profile.size - 1 + start // profile.size
        made = _Made(gi_id=gi_id, profile_id=profile_id, start=start)
        gpu.made.append(made)
        return made

    def _instance(self, device_uuid: str, gpu: _Gpu, made: _Made) -> Instance:
        profile = board(self._boards[device_uuid]).mig.profile_by_id(made.profile_id)
        used = sum(p.used_bytes for p in self._processes(device_uuid, gpu) if p.gi_id == made.gi_id)
        return Instance(
            device_uuid=device_uuid,
            gi_id=made.gi_id,
            profile_id=made.profile_id,
            start=made.start,
            size=profile.size,
            uuid=made.uuid,
            memory_bytes=profile.memory_bytes,
            used_bytes=min(profile.memory_bytes, RESERVE_BYTES + used),
        )

    # --- use ------------------------------------------------------------------------------------------------------

    def processes(self, device_uuid: str) -> list[Process]:
        with self._state(device_uuid) as (_, gpu):
            return self._processes(device_uuid, gpu)

    def used_bytes(self, device_uuid: str) -> int:
        with self._state(device_uuid) as (_, gpu):
            return RESERVE_BYTES + sum(process.used_bytes for process in self._processes(device_uuid, gpu))

    def xid_events(self) -> list[XidEvent]:
        xids = self._injected.read().xids
        new, self._xids_told = xids[self._xids_told :], len(xids)
        return [XidEvent(device_uuid=self._named(x.device), code=x.code, gi_id=x.gi_id) for x in new]

    def _processes(self, device_uuid: str, gpu: _Gpu) -> list[Process]:
        by_uuid = {made.uuid: made.gi_id for made in gpu.made if made.uuid}
        found = [
            Process(pid=r.pid, gi_id=by_uuid.get(r.slice_uuid), used_bytes=r.memory_bytes, mps=gpu.exclusive)
            for r in self.residents
            if r.device_uuid == device_uuid and process_start_time(r.pid) is not None
        ]
        extra = self._injected.read().processes
        return found + [
            Process(pid=p.pid, gi_id=p.gi_id, used_bytes=p.bytes, mps=p.mps)
            for p in extra
            if self._named(p.device) == device_uuid
        ]

    # --- the file -------------------------------------------------------------------------------------------------

    @contextmanager
    def _state(self, device_uuid: str, *, change: bool = False) -> Iterator[tuple[_State, _Gpu]]:
        """All of it and the one device's part, while no other process reads or writes it."""
        if pause := self.change_s if change else self.ask_s:
            time.sleep(pause)
        if device_uuid not in self._boards:
            code = CutCode.NOT_SUPPORTED if device_uuid in self._uuids else CutCode.NOT_FOUND
            raise CutError(code, f"{device_uuid} is no GPU that can be cut")
        signals = self._injected.read().signals
        if any(s.lost for name, s in signals.items() if self._named(name) == device_uuid):
            raise CutError(CutCode.LOST, "GPU is lost (15)")
        with self._locked() as state:
            yield state, state.gpus.setdefault(device_uuid, _Gpu())

    @contextmanager
    def _locked(self) -> Iterator[_State]:
        with self._path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self._load()

    def _load(self) -> _State:
        try:
            state = msgspec.json.decode(self._path.read_bytes(), type=_State)
        except (OSError, msgspec.DecodeError):
            return _State(boot=self._boot)
        if state.boot != self._boot:
            state.boot = self._boot
            for device_uuid, gpu in state.gpus.items():
                kept = gpu.pending and self._keeps_mode(device_uuid)
                gpu.mig, gpu.pending, gpu.exclusive, gpu.made = kept, kept, False, []
            self._save(state)
        return state

    def _save(self, state: _State) -> None:
        write_atomically(self._path, msgspec.json.encode(state))

    def _keeps_mode(self, device_uuid: str) -> bool:
        """Whether the board itself keeps MIG mode, over a reboot, and changes it only with one."""
        key = self._boards.get(device_uuid)
        return key is not None and board(key).mig_mode_needs_reset

    def _named(self, device: str | int) -> str:
        """The UUID of a device that was named by it or by its index."""
        text = str(device)
        return self._uuids[int(text)] if text.isdigit() and int(text) < len(self._uuids) else text


@cache
def _rules(board_key: str) -> Layouts:
    """With every profile of the board, those for video and graphics too: another tool may make them."""
    cut = board(board_key).mig
    return Layouts(cut, [profile.name for profile in cut.profiles])
