"""One registration from source to ready files, or to a reason. Idempotent; of several workers one does it.

source -> headers read, refused by name -> space checked -> converted or copied below .registering-ID
       -> hashed -> renamed to DIGEST -> row ready
"""

from __future__ import annotations

import errno
import logging
import secrets
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from berth.audit.services import record
from berth.catalog import download, files, hub
from berth.catalog.children import TookTooLong, run_child
from berth.catalog.header import default_sampling, licence, licence_of_card, needs_at_defaults
from berth.catalog.hub import HubError, Listing
from berth.catalog.models import Model, ModelState, Phase, SourceKind
from berth.catalog.progress import LEASE_S, Cancelled, Progress
from berth.catalog.sources import SourceError, licence_of_package, locate
from berth.config import CONFIG
from berth.core import leases
from berth.core.notify import changed, enqueue
from berth.core.version import raise_version
from gpuruntime.modelinfo import ModelFileError, ModelInfo, json_object, read_model, supports

log = logging.getLogger(__name__)

# Registrations at a time: the scheduler's other threads go on placing replicas.
SLOTS = ("registering:0", "registering:1", "registering:2")
CONVERT_TIMEOUT_S = 3600
_BF16_BYTES = 2
# Where in the whole each part ends: fetched, converted or copied, hashed.
FETCHED, WRITTEN = 0.2, 0.9


class Refused(ValueError):
    """The model cannot be registered; the text is shown to the person who tried."""


def run(model_id: str, patience_s: float = 0.0) -> None:
    """Register the model if it still is to be. Ends with the row ready, or failed or cancelled and no file.

    When as many are at work as may be it stays queued: whichever ends next starts it. ``patience_s``: how long to wait
    for one that is just being stopped.
    """
    lease, holder = f"register:{model_id}", secrets.token_hex(8)
    until = time.monotonic() + patience_s
    while not leases.take(lease, holder, LEASE_S):
        if time.monotonic() >= until:
            return
        time.sleep(0.1)
    slot = next((name for name in SLOTS if leases.take(name, holder, LEASE_S)), None)
    if slot is None:
        leases.give_back(lease, holder)
        return
    try:
        model = Model.objects.filter(id=model_id, state=ModelState.REGISTERING).first()
        if model is not None:
            _run(model, Progress(model, (lease, slot), holder))
    finally:
        leases.give_back(slot, holder)
        leases.give_back(lease, holder)
        _start_next()


def _run(model: Model, progress: Progress) -> None:
    work = files.models_directory() / f".registering-{model.id}"
    try:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        Model.objects.filter(id=model.id).update(started_at=timezone.now())
        _register(model, work, progress)
    except Cancelled:
        if not Model.objects.filter(id=model.id, state=ModelState.REGISTERING).exists():
            download.forget(model.id)
    except HubError as error:
        _fail(model.id, str(error), keep_download=True)
    except (Refused, SourceError, ModelFileError, files.DiskFull) as error:
        _fail(model.id, str(error))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        _fail(model.id, f"the disk of {work.parent} filled up" if full else f"{error.strerror}: {error.filename}")
    except Exception as error:
        log.exception("registration_failed", extra={"model": model.id})
        _fail(model.id, f"internal error ({type(error).__name__}); the log of the scheduler has more")
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _start_next() -> None:
    queued = Model.objects.filter(state=ModelState.REGISTERING, phase=Phase.QUEUED).order_by("created_at").first()
    if queued is not None:
        enqueue("berth.catalog.tasks.register", queued.id)


def _register(model: Model, work: Path, progress: Progress) -> None:
    target = work / "model"
    hashes: dict[str, str] | None = None
    text = ""
    if model.source_kind == SourceKind.HUB:
        listing = hub.list_files(hub.parse_hub(model.source))
        source, hashes = _fetch(model, listing, target, progress)
        text = listing.licence
    else:
        progress.enter(Phase.FETCHING, 0.0, FETCHED)
        source = locate(model.source_kind, model.source, work, lambda share: progress(0, share))
    progress.enter(Phase.READING, FETCHED, FETCHED)
    info = final = read_model(source)
    _require_support(info)
    if info.format == "gguf":
        _convert(source, target, info, progress)
        final = read_model(target)
        _require_support(final)
        hashes = _hash(target, final, progress)
    elif hashes is None:
        hashes = _copy(source, target, info, progress)
    kept = {file.name: hashes[file.name] for file in final.files}
    for file in target.iterdir():
        if file.name not in kept:
            file.unlink()  # of a repository: nothing that the model is not
    digest = files.digest_of(kept)
    text = text or licence(source, info) or _licence_beside(model, source)
    values: dict[str, Any] = {
        "licence": text,
        "source_format": f"{info.format.upper() if info.format == 'gguf' else info.format} {info.dtype}",
        "default_sampling": default_sampling(target),
        "digest": digest,
        "files": kept,
        "size_bytes": final.file_bytes,
        **_described(final),
    }
    files.publish(target, digest)
    try:
        _finish(model.id, values)
    except Cancelled:
        if not Model.objects.filter(digest=digest).exists():
            files.remove(digest)
        raise
    download.forget(model.id)


def _fetch(model: Model, listing: Listing, target: Path, progress: Progress) -> tuple[Path, dict[str, str]]:
    """What a hub lists, below ``target``, refused as early as it can be; and the files' hashes."""
    twice = 2 if listing.is_gguf else 1  # the file, and what it is converted to
    files.require_space(target.parent, twice * listing.size)
    _require_allowance(model, listing.size)
    high = 0.5 if listing.is_gguf else WRITTEN
    progress.enter(Phase.FETCHING, 0.0, high, listing.size)
    first = [file for file in listing.files if file.name == "config.json"]
    hashes = download.fetch(listing, first, model.id, progress) if first else {}
    had = sum(file.size for file in first)
    if first:
        try:
            config = json_object(download.folder_of(model.id) / listing.commit / "config.json")
        except ModelFileError as error:
            raise Refused(str(error)) from error
        if reason := hub.refuse_early(config):
            raise Refused(reason)
        if not any(file.name == "tokenizer.json" for file in listing.files):
            raise Refused(f"{listing.ref.repository} has no tokenizer.json")
    rest = [file for file in listing.files if file not in first]
    hashes |= download.fetch(listing, rest, model.id, lambda done: progress(had + done))
    folder = download.folder_of(model.id) / listing.commit
    if listing.is_gguf:
        return folder / Path(listing.files[0].name).name, hashes
    target.mkdir()
    for file in listing.files:
        shutil.move(folder / file.name, target / file.name)
    return target, hashes


def _require_allowance(model: Model, size_bytes: int) -> None:
    """What a tenant registers itself is bounded: the disk is everybody's."""
    if model.tenant_id is None:
        return
    own = Model.objects.filter(tenant_id=model.tenant_id).exclude(id=model.id)
    used = own.aggregate(total=Sum("size_bytes"))["total"] or 0
    limit = CONFIG.tenant_model_bytes
    if used + size_bytes > limit:
        raise Refused(
            f"the model takes {size_bytes >> 20} MiB; your models may take {limit >> 20} MiB together and have "
            f"{used >> 20} MiB. Delete one, or ask an operator to register it for everyone"
        )


def _licence_beside(model: Model, source: Path) -> str:
    if model.source_kind == SourceKind.PACKAGE:
        return licence_of_package(model.source)
    return licence_of_card(source) if source.is_dir() else ""


def _described(info: ModelInfo) -> dict[str, Any]:
    needs = needs_at_defaults(info)
    return {
        "architecture": info.architecture,
        "parameters": info.parameter_count,
        "context_length": info.context_length,
        "weights_bytes": needs.weights_bytes,
        "kv_bytes_per_token": needs.kv_bytes_per_token,
        "workspace_bytes": needs.workspace_bytes,
        "header": asdict(info),
    }


def _require_support(info: ModelInfo) -> None:
    reasons = supports(info)
    if reasons:
        raise Refused("; ".join(reasons))


def _copy(source: Path, target: Path, info: ModelInfo, progress: Progress) -> dict[str, str]:
    names = [file.name for file in info.files]
    if "tokenizer.json" not in names:
        raise Refused(f"{source.name} has no tokenizer.json")
    files.require_space(target.parent, info.file_bytes)
    progress.enter(Phase.COPYING, FETCHED, 1.0, info.file_bytes)
    return files.copy_files(source, names, target, progress)


def _convert(source: Path, target: Path, info: ModelInfo, progress: Progress) -> None:
    """In a process of its own: it needs torch, memory, and reads a file that others made."""
    expected = max(1, info.parameter_count * _BF16_BYTES)
    files.require_space(target.parent, expected)
    progress.enter(Phase.CONVERTING, 0.5, WRITTEN, expected)

    def tick(waited_s: float) -> None:
        written = sum(p.stat().st_size for p in target.parent.rglob("*.safetensors") if p.is_file())
        # Reading and dequantizing write nothing for a while: time moves the bar a little, the file the rest.
        progress(written, max(0.5 * waited_s / (waited_s + 10), written / expected))

    command = [sys.executable, "-m", "gpuruntime.loading.convert", str(source), str(target)]
    log_file = target.with_name("convert.log")
    try:
        status, output = run_child(command, log=log_file, cwd=target.parent, timeout_s=CONVERT_TIMEOUT_S, tick=tick)
    except TookTooLong as error:
        raise Refused(f"conversion was {error}") from error
    if status:
        files.require_space(target.parent, 0)
        last = (output.splitlines() or [f"ended with status {status}"])[-1]
        raise Refused(f"conversion failed: {last[:500].replace(str(source), source.name)}")


def _hash(directory: Path, info: ModelInfo, progress: Progress) -> dict[str, str]:
    done = 0
    progress.enter(Phase.HASHING, WRITTEN, 1.0, info.file_bytes)

    def seen(block: bytes) -> None:
        nonlocal done
        done += len(block)
        progress(done)

    return {file.name: files.hash_file(directory / file.name, seen) for file in info.files}


@transaction.atomic
def _finish(model_id: str, values: dict[str, Any]) -> None:
    """Raises ``Cancelled`` when somebody was faster."""
    model = Model.objects.select_for_update().filter(id=model_id, state=ModelState.REGISTERING).first()
    if model is None:
        raise Cancelled
    for name, value in values.items():
        setattr(model, name, value)
    model.state, model.reason, model.progress, model.phase = ModelState.READY, "", 1.0, Phase.DONE
    model.bytes_per_s = 0.0
    model.bytes_done = model.bytes_total = model.size_bytes
    model.save()
    after = {"name": model.name, "files": len(model.files)}
    record(actor="catalog", action="model.ready", obj=model, after=after)
    changed("model", model.id, model.tenant_id or "")
    raise_version()


@transaction.atomic
def _fail(model_id: str, reason: str, *, keep_download: bool = False) -> None:
    model = Model.objects.select_for_update().filter(id=model_id, state=ModelState.REGISTERING).first()
    if not keep_download or model is None:
        download.forget(model_id)
    if model is None:
        return
    model.state, model.reason, model.progress, model.bytes_per_s = ModelState.FAILED, reason, 0.0, 0.0
    model.save(update_fields=["state", "reason", "progress", "bytes_per_s", "updated_at"])
    record(actor="catalog", action="model.fail", obj=model, after={"reason": reason})
    changed("model", model.id, model.tenant_id or "")
