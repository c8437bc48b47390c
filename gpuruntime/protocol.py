"""Every message between runtime, node agent and control plane: one place, one version, pure Python.

Wire form: JSON text frames over websockets, tagged by ``type``. The control plane accepts ``VERSION`` and
``VERSION - 1``; unknown fields are ignored, so a newer peer may add some. Only durations travel, never clock times.

    agent    -> /ws/agent      Hello, Observed, LogLines           <- Desired
    runtime  -> /ws/runtime    RuntimeHello, Stats, Ended          <- EndedAck
    agent    -> runtime stdin  RuntimeConfig (one JSON document)   runtime -> RunFile on disk
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

import msgspec

VERSION = 1

ReplicaState = Literal["placing", "loading", "ready", "draining", "lost", "failed", "stopped"]
SliceKind = Literal["whole", "mig", "mps", "time-slice"]
SliceState = Literal["creating", "ready", "removing", "failed", "quarantined", "foreign"]
EngineName = Literal["native", "vllm"]
WhenLate = Literal["queue", "degrade", "refuse"]


class _Message(msgspec.Struct, tag_field="type", kw_only=True, omit_defaults=True):
    v: int = VERSION


# --- What a runtime is told -------------------------------------------------------------------------------------


class EngineSettings(msgspec.Struct, kw_only=True, frozen=True):
    """What a replica runs with. Sizes are what the scheduler reserved, so a runtime never takes more.

    What the fields after ``extra_args`` mean stands at ``engine.config.EngineConfig``.
    """

    engine: EngineName = "native"
    max_model_len: int | None = None
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    kv_bytes: int = 256 << 20
    dtype: Literal["bf16", "fp32", "int8", "fp8"] = "bf16"
    threads: int | None = None
    max_queue: int = 256
    queue_timeout_s: float = 30.0
    default_max_tokens: int = 512
    extra_args: list[str] = []
    kv_dtype: Literal["auto", "int8", "fp8"] = "auto"
    attention_sinks: int | None = None
    attention_window: int | None = None
    request_timeout_s: float | None = None
    speculation: Literal["off", "ngram", "draft"] = "off"
    draft_model_path: str | None = None
    max_drafts: int = 5
    backend: Literal["auto", "cpu", "torch", "triton"] = "auto"
    tensor_parallel: int = 1
    engine_process: bool | None = None


class RuntimeConfig(msgspec.Struct, kw_only=True):
    """A runtime's whole configuration, read once from stdin.

    ``run_file`` is where it reports itself (``RunFile``); ``control_url`` (``ws://...``) may be empty: then the
    runtime serves without reporting. ``token`` opens its door and its websocket. ``device_share``: what the seat is
    of its device; a second on it is so much of a device-second (docs/goodput.md). ``device_memory_bytes``: all that it
    may allot there; 0 where nothing but its own settings bounds it.
    """

    replica_id: str
    deployment: str
    model_path: str
    served_model_name: str
    token: str
    run_file: str
    control_url: str = ""
    spool_dir: str = ""
    cache_dir: str = ""
    host: str = "127.0.0.1"
    port: int = 0
    drain_timeout_s: float = 600.0
    device_uuid: str = ""
    device_share: float = 1.0
    device_memory_bytes: int = 0
    engine: EngineSettings = EngineSettings()
    v: int = VERSION


class RunFile(msgspec.Struct, kw_only=True):
    """What a runtime writes, atomically, whenever it changes; the agent reads it to report and to adopt.

    ``state``: loading -> ready -> draining -> stopped, or failed with a ``reason``. A process is identified by
    ``pid`` and ``start_time`` (from the kernel), never by pid alone. ``epoch`` is new at each start.
    """

    replica_id: str
    pid: int
    start_time: float
    epoch: str
    state: ReplicaState
    port: int = 0
    reason: str = ""
    model_path: str = ""
    memory_bytes: int = 0


# --- Agent <-> control plane ------------------------------------------------------------------------------------


class DeviceSignals(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a GPU says of its health: levels, and counts that only rise while ``epoch`` is the same.

    ``epoch``: new whenever counting begins anew (the agent or the driver started). ``xids``: how often each code came,
    by its number, without those that one instance alone raised. ``recovery_action``: as NVML names it, in small
    letters; ``lost``: it fell off the bus, or answers nothing more.
    """

    epoch: str = ""
    xids: dict[str, int] = {}
    ecc_uncorrected: int = 0
    row_remap_pending: bool = False
    row_remap_failed: bool = False
    recovery_action: str = "none"
    thermal_slowdown: bool = False
    lost: bool = False


class Device(msgspec.Struct, kw_only=True):
    """One device of a node. ``units``: into how many shares of memory it can be cut (1: whole only).

    ``board``: its type in the table of geometries; empty where no table knows it, and it is cut into units alone.
    ``kinds``: what a GPU of a known type can be; ``unable``: why it cannot be the others, by kind. ``utilisation``: the
    share of time in which it worked, 0 to 1. None: nobody measures that.
    """

    index: int
    uuid: str
    name: str
    kind: Literal["gpu", "cpu", "simulated"]
    memory_bytes: int
    units: int
    memory_used_bytes: int = 0
    utilisation: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    board: str = ""
    kinds: list[SliceKind] = []
    unable: dict[str, str] = {}
    signals: DeviceSignals | None = None


class SliceSpec(msgspec.Struct, kw_only=True):
    """One slice that must be on a device of this node. ``start`` and ``size``: of ``of_units`` units in its kind's cut.

    ``profile_id``: what creation takes for MIG. ``memory_bytes``: what those on it may allot together.
    ``thread_percentage``: of the GPU's SMs, for MPS. ``uuid``: of the MIG instance, as the agent reported it last: a
    later agent of the node that knows nothing of it any more takes up exactly that one.
    """

    slice_id: str
    device_uuid: str
    kind: SliceKind
    profile: str
    start: int
    size: int
    of_units: int
    memory_bytes: int
    profile_id: int | None = None
    thread_percentage: int = 100
    uuid: str = ""


class ObservedSlice(msgspec.Struct, kw_only=True):
    """``slice_id`` empty: nobody here asked for it (``foreign``), or nobody does any more and it cannot be removed
    (``quarantined``); its units are not free. ``uuid``: by which a process is given it. Else as ``SliceSpec``.
    """

    slice_id: str
    device_uuid: str
    kind: SliceKind
    profile: str
    start: int
    size: int
    state: SliceState
    uuid: str = ""
    reason: str = ""


class Hello(_Message, tag="hello"):
    """The agent's first message. ``address``: where gateways reach this node's runtimes."""

    node: str
    provider: Literal["nvml", "cpu", "simulated"]
    address: str
    agent_version: str
    boot_id: str
    cpu_count: int
    memory_bytes: int
    devices: list[Device]


class ReplicaSpec(msgspec.Struct, kw_only=True):
    """One replica that must run on this node. The agent fills in paths of its own.

    ``run``: True to run, False to drain and stop. ``drain_timeout_s`` bounds the drain.
    ``model_digest`` names files under ``/internal/models/DIGEST/``; ``model_files`` maps each name to its SHA-256.
    ``slice_id``: it starts once that slice is ready; empty where its device is not cut.
    """

    replica_id: str
    deployment: str
    served_model_name: str
    run: bool
    token: str
    model_digest: str
    model_files: dict[str, str]
    model_bytes: int
    device_uuid: str
    device_share: float = 1.0
    memory_bytes: int
    engine: EngineSettings
    drain_timeout_s: float = 600.0
    slice_id: str = ""


class Desired(_Message, tag="desired"):
    """The node's whole desired state. An agent ignores a ``generation`` below the highest it has applied."""

    generation: int
    replicas: list[ReplicaSpec]
    slices: list[SliceSpec] = []


class ObservedReplica(msgspec.Struct, kw_only=True):
    """``alive`` is by pid and start time; a zombie is dead. ``restarts`` counts crash restarts by this agent."""

    replica_id: str
    state: ReplicaState
    reason: str = ""
    alive: bool = False
    pid: int = 0
    port: int = 0
    epoch: str = ""
    restarts: int = 0
    progress: float | None = None
    memory_bytes: int = 0


class Observed(_Message, tag="observed"):
    generation: int
    devices: list[Device]
    replicas: list[ObservedReplica]
    slices: list[ObservedSlice] = []


class LogLines(_Message, tag="log"):
    """New lines of one replica's log. ``first`` is the number of the first of them; ``reset`` drops what was kept."""

    replica_id: str
    first: int
    lines: list[str]
    reset: bool = False


# --- Runtime <-> control plane ----------------------------------------------------------------------------------


class RuntimeHello(_Message, tag="runtime_hello"):
    replica_id: str
    epoch: str
    engine: str
    model: str
    max_model_len: int
    max_num_seqs: int
    kv_capacity_tokens: int | None = None
    weights_bytes: int | None = None
    predicted_weights_bytes: int | None = None
    predicted_bytes: int | None = None
    flops_per_s: float | None = None
    bytes_per_s: float | None = None


class Work(msgspec.Struct, kw_only=True):
    """What a replica did since its last ``Stats``. Token counts and seconds of device time."""

    seconds: float = 0.0
    busy_s: float = 0.0
    executed_ideal_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    steps: int = 0
    preemptions: int = 0
    ideal_s_by_tenant: dict[str, float] = {}


class Pace(NamedTuple):
    """Of steps with ``batch`` to less than twice as many requests: their number, their time, the tokens they gave."""

    batch: int
    steps: int
    seconds: float
    tokens: int


class Stats(_Message, tag="stats"):
    """Each second. Renews the replica's liveness (TTL 10 s). ``paces``: since its start. ``memory_bytes``: what it
    holds of its device's memory; on a CPU, what is resident.
    """

    replica_id: str
    epoch: str
    state: ReplicaState
    running: int
    queued: int
    kv_free_blocks: int | None = None
    kv_total_blocks: int | None = None
    predicted_ttft_ms: float | None = None
    memory_bytes: int = 0
    paces: list[Pace] = []
    work: Work = msgspec.field(default_factory=Work)


class EndedRequest(msgspec.Struct, kw_only=True):
    """The door's exact account of one request; kept in its spool until acknowledged.

    ``outcome`` is of ``gpuruntime.goodput.Outcome``; ``duration_ms`` from the body read to the end at the door.
    ``running_at_arrival`` and ``queued_at_arrival``: requests that ran and waited at this door when it came.
    ``replayed_tokens``: of the completion's, which another door had generated and the client had before this one went
    on; the times of such a request, which are not those of the whole, stay None.
    ``number``: the process (``epoch``) numbers its accounts from 1 without a gap, so that each can be added up exactly
    once; ``ended_at``: Unix seconds by the door's clock. None of both: a door of the version before.
    ``degraded``: it was served without its deadline, which it was predicted to miss.
    """

    request_id: str
    tenant: str
    deployment: str
    replica_id: str
    epoch: str
    outcome: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    new_prompt_tokens: int | None = None
    queue_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    ttft_ms: float | None = None
    duration_ms: float = 0.0
    preemptions: int | None = None
    ideal_s: float | None = None
    executed_ideal_s: float | None = None
    running_at_arrival: int | None = None
    queued_at_arrival: int | None = None
    degraded: bool = False
    replayed_tokens: int = 0
    number: int | None = None
    ended_at: float | None = None


class Ended(_Message, tag="ended"):
    replica_id: str
    requests: list[EndedRequest]


class EndedAck(_Message, tag="ended_ack"):
    request_ids: list[str]


AgentMessage = Hello | Observed | LogLines
RuntimeMessage = RuntimeHello | Stats | Ended

_agent_decoder = msgspec.json.Decoder(AgentMessage)
_runtime_decoder = msgspec.json.Decoder(RuntimeMessage)
_desired_decoder = msgspec.json.Decoder(Desired)
_ack_decoder = msgspec.json.Decoder(EndedAck)


class ProtocolError(ValueError):
    """A message that is not one of ours, or of a version that is not accepted."""


def encode(message: msgspec.Struct) -> str:
    return msgspec.json.encode(message).decode()


def _decode(decoder: msgspec.json.Decoder[Any], data: str | bytes) -> Any:
    try:
        message = decoder.decode(data)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"not a message of this protocol: {error}") from error
    if not VERSION - 1 <= message.v <= VERSION:
        raise ProtocolError(f"protocol version {message.v} is not accepted (this side speaks {VERSION})")
    return message


def decode_agent(data: str | bytes) -> AgentMessage:
    """A message from an agent. Raises ``ProtocolError``."""
    return _decode(_agent_decoder, data)  # type: ignore[no-any-return]


def decode_runtime(data: str | bytes) -> RuntimeMessage:
    """A message from a runtime. Raises ``ProtocolError``."""
    return _decode(_runtime_decoder, data)  # type: ignore[no-any-return]


def decode_desired(data: str | bytes) -> Desired:
    return _decode(_desired_decoder, data)  # type: ignore[no-any-return]


def decode_ended_ack(data: str | bytes) -> EndedAck:
    return _decode(_ack_decoder, data)  # type: ignore[no-any-return]


# --- Headers between gateway and door ---------------------------------------------------------------------------

REQUEST_ID = "x-request-id"
TENANT = "x-berth-tenant"
SALT = "x-berth-salt"
WEIGHT = "x-berth-weight"
SLO_TTFT_MS = "x-slo-ttft-ms"
SLO_FREE_TOKENS = "x-slo-free-tokens"
SLO_PREFILL_RATE = "x-slo-prefill-rate"
SLO_TPOT_MS = "x-slo-tpot-ms"
WHEN_LATE = "x-berth-when-late"
DEGRADED = "x-berth-degraded"  # on an answer: the promise it was served without
LOAD = "x-berth-load"
# Asks for the marks of a stream (``gpuruntime.marks``). A door that sends them answers with the same header, whose
# value says which model the tokens are of.
MARKS = "x-berth-marks"
# "BYTES MODEL": so much of the body is the request; behind it stand the marks of its answer by a door of that model.
RESUME = "x-berth-resume"
CREATED = "x-berth-created"  # of the answer, in Unix seconds: the same whichever door writes it


class Load(msgspec.Struct, kw_only=True, frozen=True):
    """What a door says of itself on every response (``x-berth-load``), as ``running=1, queued=0, ...``."""

    running: int
    queued: int
    capacity: int
    predicted_ttft_ms: float = 0.0
    kv_free: float = 1.0

    def header(self) -> str:
        return (
            f"running={self.running}, queued={self.queued}, capacity={self.capacity}, "
            f"ttft_ms={self.predicted_ttft_ms:.1f}, kv_free={self.kv_free:.3f}"
        )

    @classmethod
    def parse(cls, value: str) -> Load | None:
        """None for anything malformed: a bad hint is no hint."""
        pairs = dict(re.findall(r"(\w+)=([0-9.]+)", value))
        try:
            return cls(
                running=int(pairs["running"]),
                queued=int(pairs["queued"]),
                capacity=int(pairs["capacity"]),
                predicted_ttft_ms=float(pairs.get("ttft_ms", 0)),
                kv_free=float(pairs.get("kv_free", 1)),
            )
        except (KeyError, ValueError):
            return None
