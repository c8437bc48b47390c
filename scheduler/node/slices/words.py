"""Why a slice is not there, or not free, in sentences that a person meets in the console."""

from __future__ import annotations

GIB = 1 << 30
MADE = "it is being made"
NOT_ASKED_FOR = "this node has not been told to make it"
FOREIGN = "another tool made it: Berth neither uses nor removes it"
HALF_FOREIGN = "another tool began to make it: Berth neither uses nor removes it"
CHECKED = "the memory of what ran there before is being checked"
NO_CUTTER = "nothing on this node can be cut"
LEFT_OUT = "the file that makes this fleet up leaves it out"
STILL_LISTED = "the driver still lists it"


def waiting(profile: str, gpu: str, why: str) -> str:
    return f"Waiting for its slice {profile} on {gpu}: {why}"


def waiting_untold(slice_id: str) -> str:
    return f"Waiting for slice {slice_id}: {NOT_ASKED_FOR}"


def held(replica: str) -> str:
    return f"replica {replica} still runs there"


def stranger(pid: int) -> str:
    return f"a process that is not its own runs there (pid {pid})"


def memory_held(over_bytes: int) -> str:
    return f"the memory of what ran there before is not free yet ({over_bytes >> 20} MiB)"


def other_cut(gpu: str, kind: str, wanted: str) -> str:
    return f"{gpu} is used as {kind} and cannot be {wanted} at the same time"


def needs_reset(gpu: str, enable: bool) -> str:
    if enable:
        return f"{gpu} takes up MIG mode with its next reset only: reset the GPU, or reboot the node"
    return f"{gpu} leaves MIG mode with its next reset only: reset the GPU, or reboot the node"


def mode_waits(on: bool, reset: str) -> str:
    if on:
        return f"MIG mode turns on with the next reset: {reset}"
    return f"MIG mode turns off with the next reset: {reset}"


def mode_needs_reset(on: bool, switch: str) -> str:
    if on:
        return f"MIG mode is on, and this GPU changes it only with a reset: {switch}"
    return f"MIG mode is off, and this GPU changes it only with a reset: {switch}"


def not_idle(gpu: str) -> str:
    return f"{gpu} changes its MIG mode once nothing runs on it"


def foreign_in_mode(gpu: str) -> str:
    return f"{gpu} stays in MIG mode while instances that another tool made are on it"


def refused(gpu: str, text: str) -> str:
    return f"{gpu} refused: {text}"


def no_permission(gpu: str, text: str) -> str:
    return (
        f"the agent may not cut {gpu}: {text}; run it as root, or let it read"
        " /proc/driver/nvidia/capabilities/mig/config"
    )


def silent(gpu: str, text: str) -> str:
    return f"{gpu} does not answer: {text}"


def no_profile(gpu: str, profile: str) -> str:
    return f"{gpu} has no profile {profile}"


def place_taken(gpu: str, by: str) -> str:
    return f"its place on {gpu} is taken by an instance that another tool made ({by})"


def place_not_free(gpu: str, by: str) -> str:
    return f"its place on {gpu} is not free yet: {by} goes first"


def quarantined(text: str) -> str:
    return f"nobody needs it any more, and the driver keeps it in use although no process is on it: {text}"


def vanished(replica: str) -> str:
    return f"another tool removed it while replica {replica} ran on it"


def too_much(gpu: str, asked_bytes: int, has_bytes: int) -> str:
    return f"the slices of {gpu} may allot {asked_bytes / GIB:.1f} GiB together and it has {has_bytes / GIB:.1f} GiB"


def mps_missing(program: str) -> str:
    return f"{program} is not on this machine: install it, or name it in BERTH_MPS_CONTROL"


def mps_silent(gpu: str, text: str) -> str:
    return f"the MPS daemon of {gpu} does not serve: {text}"


def mps_died(gpu: str) -> str:
    return f"the MPS daemon of {gpu} died; it starts again once the replicas that it served have ended"


def beside_mps(pid: int) -> str:
    return f"its process (pid {pid}) runs beside MPS and its limits"


def xid(code: int, meaning: str) -> str:
    return f"XID {code} on its slice: {meaning}"
