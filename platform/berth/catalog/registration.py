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

from berth.audit.services import record
from berth.catalog import files
from berth.catalog.children import TookTooLong, run_child
from berth.catalog.header import default_sampling, licence, needs_at_defaults
from berth.catalog.models import Model, ModelState, SourceKind
from berth.catalog.sources import SourceError, licence_of_package, locate
from berth.core import leases
from berth.core.notify import changed
from berth.core.version import raise_version
from gpuruntime.modelinfo import ModelFileError, ModelInfo, read_model, supports

log = logging.getLogger(__name__)

# Renewed with each report of progress, so it runs out soon after a worker died.
LEASE_S = 30
CONVERT_TIMEOUT_S = 3600
_BF16_BYTES = 2
# Where in the whole each part ends: fetched, converted or copied, hashed.
FETCHED, WRITTEN = 0.2, 0.9


class Refused(ValueError):
    """The model cannot be registered; the text is shown to the person who tried."""


def run(model_id: str) -> None:
    """Register the model if it still is to be. Ends with the row ready, or failed with a reason and no file."""
    lease, holder = f"register:{model_id}", secrets.token_hex(8)
    if not leases.take(lease, holder, LEASE_S):
        return
    work = files.models_directory() / f".registering-{model_id}"
    try:
        model = Model.objects.filter(id=model_id, state=ModelState.REGISTERING).first()
        if model is None:
            return
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        _register(model, work, Progress(model, lease, holder))
    except (Refused, SourceError, ModelFileError, files.DiskFull) as error:
        _fail(model_id, str(error))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        _fail(model_id, f"the disk of {work.parent} filled up" if full else f"{error.strerror}: {error.filename}")
    except Exception as error:
        log.exception("registration_failed", extra={"model": model_id})
        _fail(model_id, f"internal error ({type(error).__name__}); the log of the scheduler has more")
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
        leases.give_back(lease, holder)


class Progress:
    """Writes the share done at most each half second, and renews the lease with it."""

    def __init__(self, model: Model, lease: str, holder: str) -> None:
        self._model, self._lease, self._holder = model, lease, holder
        self._last = 0.0

    def __call__(self, share: float) -> None:
        if time.monotonic() - self._last < 0.5:
            return
        self._last = time.monotonic()
        if not leases.take(self._lease, self._holder, LEASE_S):
            raise Refused("another worker took this registration over")
        Model.objects.filter(id=self._model.id).update(progress=round(min(share, 0.99), 3))
        changed("model", self._model.id)


def _register(model: Model, work: Path, progress: Progress) -> None:
    source = locate(model.source_kind, model.source, work, lambda share: progress(share * FETCHED))
    info = read_model(source)
    _require_support(info)
    target = work / "model"
    if info.format == "gguf":
        _convert(source, target, info, progress)
        final = read_model(target)
        _require_support(final)
        hashes = _hash(target, final, progress)
    else:
        final = info
        hashes = _copy(source, target, info, progress)
    digest = files.digest_of(hashes)
    files.publish(target, digest)
    text = licence(source, info) or (
        licence_of_package(model.source) if model.source_kind == SourceKind.PACKAGE else ""
    )
    values: dict[str, Any] = {
        "licence": text,
        "source_format": f"{info.format.upper() if info.format == 'gguf' else info.format} {info.dtype}",
        "default_sampling": default_sampling(files.path_of(digest)),
        "digest": digest,
        "files": hashes,
        "size_bytes": final.file_bytes,
    }
    _finish(model.id, {**values, **_described(final)})


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
    total = info.file_bytes or 1
    span = WRITTEN - FETCHED
    return files.copy_files(source, names, target, lambda done: progress(FETCHED + span * done / total))


def _convert(source: Path, target: Path, info: ModelInfo, progress: Progress) -> None:
    """In a process of its own: it needs torch, memory, and reads a file that others made."""
    expected = max(1, info.parameter_count * _BF16_BYTES)
    files.require_space(target.parent, expected)

    def tick(waited_s: float) -> None:
        written = sum(p.stat().st_size for p in target.parent.rglob("*.safetensors") if p.is_file())
        # Reading and dequantizing write nothing for a while: time moves the bar a little, the file the rest.
        share = max(0.5 * waited_s / (waited_s + 10), written / expected)
        progress(FETCHED + (WRITTEN - FETCHED) * share)

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

    def seen(block: bytes) -> None:
        nonlocal done
        done += len(block)
        progress(WRITTEN + (1 - WRITTEN) * done / max(1, info.file_bytes))

    return {file.name: files.hash_file(directory / file.name, seen) for file in info.files}


@transaction.atomic
def _finish(model_id: str, values: dict[str, Any]) -> None:
    model = Model.objects.select_for_update().get(id=model_id)
    for name, value in values.items():
        setattr(model, name, value)
    model.state, model.reason, model.progress = ModelState.READY, "", 1.0
    model.save()
    record(actor="catalog", action="model.ready", obj=model, after={"name": model.name, "files": len(model.files)})
    changed("model", model.id)
    raise_version()


@transaction.atomic
def _fail(model_id: str, reason: str) -> None:
    model = Model.objects.select_for_update().get(id=model_id)
    model.state, model.reason, model.progress = ModelState.FAILED, reason, 0.0
    model.save(update_fields=["state", "reason", "progress", "updated_at"])
    record(actor="catalog", action="model.fail", obj=model, after={"reason": reason})
    changed("model", model.id)
