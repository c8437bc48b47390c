"""A whole house into one file, and back.

backup    one snapshot of the database, while everything runs or while nothing does; secrets and models' files if asked
restore   checked first, then: models' files -> the database, one transaction -> secrets. What fails before the
          transaction's end changes nothing

Not in it: Redis (requests of the last seconds that were not booked yet), sessions, logs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from django.db import connection, transaction
from django.utils import timezone

from berth.audit.services import record
from berth.catalog.files import digest_of, models_directory, path_of, publish, require_space
from berth.catalog.models import Model, ModelState
from berth.config import CONFIG
from berth.core import secrets
from berth.core.models import ConfigVersion
from berth.deployments.models import Replica, ReplicaState
from berth.deployments.replicas import end_replica
from berth.embedded import lock
from berth.embedded.paths import Home
from berth.embedded.postgres import EmbeddedPostgres, Postgres
from berth.management.archive import BadArchive, Manifest, Reader, Writer
from berth.management.tables import check_known, dump_tables, holds_data, load_tables

ACTOR = "manage.py"
RESTORED = "the house was restored from a backup"
Say = Callable[[str], object]


class Refused(RuntimeError):
    """Not done, nothing changed; the text says why and what to do."""


def write_backup(target: Path, *, with_secrets: bool, with_models: bool, say: Say) -> Manifest:
    """Replaces ``target`` whole, or leaves it. Raises ``Refused`` and ``OSError``."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    with database(make=False):
        try:
            draft.touch(mode=0o600)
            with zipfile.ZipFile(draft, "w") as archive:
                writer = Writer(archive)
                _fill(writer, with_secrets=with_secrets, with_models=with_models, say=say)
                writer.finish()
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    return writer.manifest


def _fill(writer: Writer, *, with_secrets: bool, with_models: bool, say: Say) -> None:
    manifest = writer.manifest
    manifest.created_at = timezone.now().isoformat()
    manifest.secrets, manifest.model_files = with_secrets, with_models
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        dump_tables(writer)
        models = list(Model.objects.filter(state=ModelState.READY).order_by("name"))
    say(f"database: {sum(table.rows for table in manifest.tables.values())} rows of {len(manifest.tables)} tables")
    for model in models:
        manifest.models.append(
            {
                "name": model.name, "digest": model.digest, "bytes": model.size_bytes,
                "source_kind": model.source_kind, "source": model.source,
            }
        )  # fmt: skip
    for digest, files in {model.digest: model.files for model in models}.items() if with_models else ():
        say(f"model files: {digest[:12]}")
        _add_model(writer, digest, files)
    if with_secrets:
        for path in sorted(secrets.folder().iterdir()):
            if path.is_file() and not path.name.startswith("."):
                writer.add_file(f"secrets/{path.name}", path)


def _add_model(writer: Writer, digest: str, files: dict[str, str]) -> None:
    for name, expected in sorted(files.items()):
        path = path_of(digest) / name
        try:
            found = writer.add_file(f"models/{digest}/{name}", path, compress=False)
        except FileNotFoundError as error:
            raise Refused(f"{path} is missing; register its model anew, or back up without --models") from error
        if found != expected:
            raise Refused(f"{path} is not what was registered: its SHA-256 is {found}; register its model anew")


def restore(source: Path, *, force: bool, say: Say) -> Manifest:
    """Raises ``BadArchive``, ``NewerVersion``, ``Refused`` and ``AlreadyRunning``, each before anything changed."""
    say(f"checking {source}")
    home = Home(CONFIG.home)
    with Reader(source) as reader, _alone(home):
        check_known(reader.manifest.migrations)
        with database(make=True):
            if not force and (holds_data() or any(path_of(d).exists() for d in _digests(reader))):
                raise Refused(f"{home.root} is in use; --force replaces what is there, or take an empty BERTH_HOME")
            require_space(models_directory(), reader.size("models"))
            added: list[Path] = []
            try:
                for digest in _digests(reader):
                    say(f"model files: {digest[:12]}")
                    added += _unpack_model(reader, digest)
                say("database")
                with _secrets(reader), transaction.atomic():
                    load_tables(reader)
                    _settle(source, reader)
            except BaseException:
                for path in added:
                    shutil.rmtree(path, ignore_errors=True)
                raise
        return reader.manifest


def _digests(reader: Reader) -> list[str]:
    return sorted({name.split("/")[1] for name in reader.names("models")})


def _unpack_model(reader: Reader, digest: str) -> list[Path]:
    """The folder that was made: none when the model was there."""
    if path_of(digest).exists():
        return []
    work = models_directory() / f".restoring-{digest}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    try:
        names = [name for name in reader.names("models") if name.split("/")[1] == digest]
        for name in names:
            with (work / name.rsplit("/", 1)[1]).open("wb") as file:
                for block in reader.blocks(name):
                    file.write(block)
        hashes = {name.rsplit("/", 1)[1]: str(reader.manifest.members[name]["sha256"]) for name in names}
        if digest_of(hashes) != digest:
            raise BadArchive(f"The files of model {digest} are not its own")
        return [publish(work, digest)]
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _secrets(reader: Reader) -> Iterator[None]:
    """Puts the secrets in place once the body went well: written beside first, so that only renames are left."""
    folder, drafts = secrets.folder(), []
    try:
        for name in reader.names("secrets"):
            draft = folder / f".restoring-{name.rsplit('/', 1)[1]}"
            draft.unlink(missing_ok=True)
            draft.touch(mode=0o600)
            draft.write_bytes(b"".join(reader.blocks(name)))
            drafts.append(draft)
        yield
        for draft in drafts:
            draft.replace(folder / draft.name.removeprefix(".restoring-"))
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def _settle(source: Path, reader: Reader) -> None:
    """What was true of the house that was backed up and is not of this one."""
    for replica in Replica.objects.for_platform().filter(ended_at=None).order_by("id"):
        end_replica(replica=replica, state=ReplicaState.LOST, reason=RESTORED)
    for model in Model.objects.filter(state=ModelState.READY):
        if not path_of(model.digest).exists():
            # Fetched again from where it came; the same files have the same digest.
            Model.objects.filter(id=model.id).update(state=ModelState.REGISTERING, progress=0.0, reason=RESTORED)
    ConfigVersion.objects.update(version=ConfigVersion.objects.values_list("version", flat=True)[0] + 1)
    record(
        actor=ACTOR, action="house.restore",
        after={"file": source.name, "made_at": reader.manifest.created_at, "with_keys": reader.manifest.secrets},
    )  # fmt: skip


@contextlib.contextmanager
def database(*, make: bool) -> Iterator[None]:
    """The database answers in the body: another's, the running house's, or the embedded one started for a while."""
    server = Postgres(Home(CONFIG.home).postgres)
    if CONFIG.database_url or server.ready():
        yield
        return
    if not make and not server.initialised:
        raise Refused(f"There is no database in {CONFIG.home}; set BERTH_HOME or BERTH_DATABASE_URL to the house's")
    if make:
        Home(CONFIG.home).create()
    with _alone(Home(CONFIG.home)) if not make else contextlib.nullcontext():
        running = EmbeddedPostgres(server.directory)
        try:
            yield
        finally:
            connection.close()
            running.stop()


@contextlib.contextmanager
def _alone(home: Home) -> Iterator[None]:
    """No ``up`` of this folder runs or starts meanwhile. Raises ``AlreadyRunning``."""
    home.create()
    with lock.hold(home.lock, home.root):
        yield
