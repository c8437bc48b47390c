"""A node's whole desired state, as its agent gets it."""

from __future__ import annotations

from berth.core.secrets import replica_token
from berth.deployments.models import Deployment, Replica
from berth.fleet.models import Node, Seat, Slice, SliceKind
from berth.fleet.selectors import device_shares, part_of, seats
from berth.options.selectors import get
from gpuruntime import protocol
from scheduler.geometry.boards import board
from scheduler.packing.model import ISOLATION


def desired_for(node: Node) -> protocol.Desired:
    """Every replica that has a seat on ``node`` and has not ended.

    The generation is read first: then what follows is at least as new as it says, never older.
    """
    generation = Node.objects.values_list("generation", flat=True).get(id=node.id)
    here = seats().filter(slice__gpu__node_id=node.id, replica__ended_at=None)
    rows = list(here.select_related("slice__gpu", "replica__deployment__model"))
    shares = device_shares([part_of(row) for row in rows])
    slices = {seat.slice_id: _slice(seat) for seat in rows if seat.slice.kind != SliceKind.SHARES}
    replicas = [_spec(seat, shares) for seat in rows]
    return protocol.Desired(generation=generation, replicas=replicas, slices=list(slices.values()))


def _slice(seat: Seat) -> protocol.SliceSpec:
    row: Slice = seat.slice
    cut = board(row.gpu.board).cut(ISOLATION[row.kind].cut)
    return protocol.SliceSpec(
        slice_id=row.id,
        device_uuid=row.gpu.uuid,
        kind=row.kind,  # type: ignore[arg-type]
        profile=row.profile,
        profile_id=cut.profile(row.profile).id,
        start=row.start,
        size=row.size,
        of_units=cut.units,
        memory_bytes=row.memory_bytes,
        thread_percentage=seat.sm_percent,
        uuid=row.uuid if row.kind == SliceKind.MIG else "",
    )


def _spec(seat: Seat, shares: dict[str, float]) -> protocol.ReplicaSpec:
    replica: Replica = seat.replica
    deployment: Deployment = replica.deployment
    model = deployment.model
    return protocol.ReplicaSpec(
        replica_id=replica.id,
        deployment=deployment.id,
        served_model_name=deployment.name,
        run=replica.run,
        token=replica_token(replica.id),
        model_digest=model.digest,
        model_files=dict(model.files),
        model_bytes=model.size_bytes,
        device_uuid=seat.slice.gpu.uuid,
        device_share=shares[seat.id],
        memory_bytes=seat.memory_bytes,
        engine=engine_settings(deployment),
        drain_timeout_s=float(get("drain_timeout_s")),
        slice_id=seat.slice_id if seat.slice.kind != SliceKind.SHARES else "",
    )


def engine_settings(deployment: Deployment) -> protocol.EngineSettings:
    return protocol.EngineSettings(
        engine=deployment.engine,  # type: ignore[arg-type]
        max_model_len=deployment.max_model_len,
        max_num_seqs=deployment.max_num_seqs,
        kv_bytes=deployment.kv_bytes,
        dtype=deployment.dtype,  # type: ignore[arg-type]
        kv_dtype=deployment.kv_dtype,  # type: ignore[arg-type]
        default_max_tokens=deployment.default_max_tokens,
    )
