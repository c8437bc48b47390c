"""What a gateway writes down of a request: when it opens and when it ends. Pure: no Django."""

from __future__ import annotations

import msgspec


class OpenRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Who asked what under which contract: enough to close the request without its gateway. ``at``: Unix seconds."""

    request_id: str
    tenant_id: str
    deployment_id: str
    deployment_name: str
    key_id: str
    contract_id: str = ""
    contract_version: int = 0
    class_name: str = ""
    at: float
    stream: bool = True


class UsageEvent(OpenRecord, kw_only=True, omit_defaults=True):
    """An ended request as its gateway saw it, with the limits it was judged by.

    ``reached``: a door may have counted it, so its word is awaited; ``tries``: how many doors were asked;
    ``resumes``: how often one of them went on with an answer that another had begun.
    """

    replica_id: str = ""
    reached: bool = False
    outcome: str
    finish_reason: str = ""
    status: int = 200
    prompt_tokens: int = 0
    cached_tokens: int = 0
    new_prompt_tokens: int = 0
    completion_tokens: int = 0
    offered: bool = False
    good: bool = False
    compatible: bool = False
    reason: str = ""
    ttft_us: int | None = None
    ttft_limit_us: int | None = None
    tpot_us: float | None = None
    fluidity: float = 1.0
    e2e_us: int = 0
    queue_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    preemptions: int | None = None
    ideal_s: float | None = None
    executed_ideal_s: float | None = None
    tpot_limit_us: int | None = None
    fluidity_floor: float | None = None
    e2e_limit_us: int | None = None
    burst: bool = False
    ready_at_arrival: bool | None = None
    tries: int | None = None
    resumes: int | None = None
    stalls: int | None = None
    max_gap_us: int | None = None


class Cell(msgspec.Struct, array_like=True):
    """One gateway's requests of a second in one cell; ``window`` is ``goodput.Window.to_json()``."""

    tenant_id: str
    deployment_id: str
    class_name: str
    window: dict[str, object]


open_decoder = msgspec.json.Decoder(OpenRecord)
usage_decoder = msgspec.json.Decoder(UsageEvent)
cells_decoder = msgspec.json.Decoder(list[Cell])
encode = msgspec.json.Encoder().encode
