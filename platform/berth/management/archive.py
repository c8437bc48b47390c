"""The file of a backup: a ZIP that says what is in it, and proves it.

    manifest.json            what follows, with sizes and SHA-256; migrations; models; whether secrets and files are in
    database/TABLE.copy      rows, as COPY writes them (text format)
    secrets/NAME             only when asked for
    models/DIGEST/NAME       only when asked for

Nothing of it is believed before all of it was checked.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

FORMAT = 1
MANIFEST = "manifest.json"
BLOCK = 1 << 20
MAX_MANIFEST_BYTES = 256 << 20
_MEMBER = re.compile(
    r"database/[a-z0-9_]{1,63}\.copy|secrets/[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}"
    r"|models/[0-9a-f]{64}/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}"
)


class BadArchive(ValueError):
    """No backup, not a whole one, or one that this version cannot read. One sentence that says which."""


@dataclass
class Table:
    columns: list[str]
    rows: int


@dataclass
class Manifest:
    """``members``: path to {"bytes", "sha256"}; ``migrations``: [app, name] as they were applied."""

    format: int = FORMAT
    created_at: str = ""
    migrations: list[list[str]] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    models: list[dict[str, Any]] = field(default_factory=list)
    secrets: bool = False
    model_files: bool = False
    members: dict[str, dict[str, Any]] = field(default_factory=dict)


class Writer:
    """Adds members to an open ZIP and keeps account of them."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.manifest = Manifest()

    @contextmanager
    def member(self, path: str, *, compress: bool = True) -> Iterator[Hashed]:
        if not _MEMBER.fullmatch(path):
            raise BadArchive(f"{path!r} cannot be named in a backup")
        info = zipfile.ZipInfo(path)
        info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
        info.external_attr = 0o600 << 16
        with self._archive.open(info, "w", force_zip64=True) as handle:
            hashed = Hashed(handle)
            yield hashed
        self.manifest.members[path] = {"bytes": hashed.bytes, "sha256": hashed.hash.hexdigest()}

    def add_file(self, path: str, source: Path, *, compress: bool = True) -> str:
        """Returns the SHA-256 of what was read."""
        with source.open("rb") as file, self.member(path, compress=compress) as member:
            while block := file.read(BLOCK):
                member.write(block)
        return member.hash.hexdigest()

    def finish(self) -> None:
        text = json.dumps(asdict(self.manifest), sort_keys=True, indent=1)
        self._archive.writestr(zipfile.ZipInfo(MANIFEST), text, zipfile.ZIP_DEFLATED)


class Hashed:
    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self.hash = hashlib.sha256()
        self.bytes = 0

    def write(self, block: bytes | memoryview) -> None:
        self._handle.write(block)
        self.hash.update(block)
        self.bytes += len(block)


class Reader:
    """A backup that was checked, whole, on opening. Raises ``BadArchive``."""

    def __init__(self, path: Path) -> None:
        try:
            self._archive = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise BadArchive(f"There is no file {path}") from None
        except (zipfile.BadZipFile, OSError) as error:
            raise BadArchive(f"{path} is no backup, or was cut short ({error})") from error
        try:
            self.manifest = self._manifest(path)
            self._check(path)
        except BaseException:
            self._archive.close()
            raise

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self._archive.close()

    def names(self, folder: str) -> list[str]:
        return sorted(name for name in self.manifest.members if name.startswith(f"{folder}/"))

    def blocks(self, name: str) -> Iterator[bytes]:
        with self._archive.open(name) as member:
            while block := member.read(BLOCK):
                yield block

    def size(self, folder: str) -> int:
        return sum(int(self.manifest.members[name]["bytes"]) for name in self.names(folder))

    def _manifest(self, path: Path) -> Manifest:
        try:
            if self._archive.getinfo(MANIFEST).file_size > MAX_MANIFEST_BYTES:
                raise BadArchive(f"{path}: its list of contents is beyond all measure")
            raw = json.loads(self._archive.read(MANIFEST))
            number = raw["format"]
            if number != FORMAT:
                raise BadArchive(f"{path} has format {number}; this version of Berth reads {FORMAT}")
            tables = {name: Table(**table) for name, table in raw.pop("tables").items()}
            manifest = Manifest(**raw, tables=tables)
        except BadArchive:
            raise
        except KeyError as error:
            raise BadArchive(f"{path} is no backup of Berth: it lacks {error}") from error
        except (zipfile.BadZipFile, ValueError, TypeError, AttributeError, OSError, EOFError) as error:
            raise BadArchive(f"{path} is damaged: its list of contents cannot be read") from error
        return manifest

    def _check(self, path: Path) -> None:
        """Every member that is named, of the size and hash that is named, and no other."""
        listed = set(self.manifest.members)
        there = {info.filename for info in self._archive.infolist()} - {MANIFEST}
        if listed != there or len(self._archive.infolist()) != len(there) + 1:
            odd = min(listed ^ there, default=MANIFEST)
            raise BadArchive(f"{path} is damaged: {odd} is {'missing' if odd in listed else 'not of it'}")
        for name in sorted(listed):
            if not _MEMBER.fullmatch(name):
                raise BadArchive(f"{path} is no backup of Berth: it has a member {name!r}")
            found, size = hashlib.sha256(), 0
            try:
                for block in self.blocks(name):
                    found.update(block)
                    size += len(block)
            except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, zlib.error) as error:
                raise BadArchive(f"{path} is damaged at {name}") from error
            if self.manifest.members[name] != {"bytes": size, "sha256": found.hexdigest()}:
                raise BadArchive(f"{path} is damaged at {name}")
        lacking = {f"database/{table}.copy" for table in self.manifest.tables} - listed
        if lacking or not self.manifest.tables:
            raise BadArchive(f"{path} is damaged: {min(lacking, default='the database')} is missing")
