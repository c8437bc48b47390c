"""Models of a hub that speaks Hugging Face's HTTP API: what a repository holds, and its files, over plain HTTPS.

``GET /api/models/ID?blobs=true`` lists a revision with sizes and hashes, ``GET /ID/resolve/COMMIT/FILE`` is one file.
Source: https://huggingface.co/docs/hub/api. The commit is pinned by the listing, so that a download may go on later.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from berth.catalog.sources import SourceError
from berth.config import CONFIG
from berth.core.errors import Invalid
from gpuruntime.modelinfo import SUPPORTED_ARCHITECTURES

SOURCE = re.compile(
    r"([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})"
    r"(?:@([A-Za-z0-9][\w./-]{0,99}))?"
    r"(?::([\w./ -]{1,200}\.gguf))?",
    re.ASCII,
)
TIMEOUT_S = 20.0
_MOST_LISTING_BYTES = 32 << 20
_MOST_SIDE_BYTES = 256 << 20
_SIDE = (".json", ".jinja", ".model", ".txt")
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")


class HubError(SourceError):
    """The hub does not have it, does not give it, or cannot be reached; one sentence says which and what helps."""


@dataclass(frozen=True, slots=True)
class HubRef:
    """``revision``: a branch, tag or commit. ``file`` empty: the repository's own weights."""

    repository: str
    revision: str
    file: str


@dataclass(frozen=True, slots=True)
class HubFile:
    """``sha256`` of files in large storage, ``blob`` (git's SHA-1 of "blob SIZE NUL" and the contents) of others."""

    name: str
    size: int
    sha256: str
    blob: str


@dataclass(frozen=True, slots=True)
class Listing:
    ref: HubRef
    commit: str
    licence: str
    files: tuple[HubFile, ...]

    @property
    def is_gguf(self) -> bool:
        return len(self.files) == 1 and self.files[0].name.endswith(".gguf")

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def parse_hub(source: str) -> HubRef:
    """``OWNER/NAME``, with ``@REVISION`` and, of a repository with several, ``:FILE.gguf``. Raises ``Invalid``."""
    match = SOURCE.fullmatch(source)
    if match is None or ".." in source or source.count("/") > 12:
        raise Invalid(f"{source!r}: expected OWNER/NAME, OWNER/NAME@REVISION or OWNER/NAME:FILE.gguf", field="source")
    if not CONFIG.hub_url:
        raise Invalid("Models of a hub are off here: BERTH_HUB_URL is empty", field="source_kind")
    return HubRef(match[1], match[2] or "main", match[3] or "")


def list_files(ref: HubRef) -> Listing:
    """The files that make the model. Raises ``HubError``."""
    path = f"/api/models/{ref.repository}"
    if ref.revision != "main":
        path += f"/revision/{urllib.parse.quote(ref.revision, safe='')}"
    try:
        with open_url(f"{path}?blobs=true") as response:
            data = response.read(_MOST_LISTING_BYTES)
        about = json.loads(data)
        commit, siblings = str(about["sha"]), [_file(entry) for entry in about["siblings"]]
    except urllib.error.HTTPError as error:
        raise HubError(_refused(ref, error)) from error
    except (OSError, http.client.HTTPException) as error:
        raise unreachable(error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise HubError(f"{CONFIG.hub_url} answered with something that is no listing of a model") from error
    if not re.fullmatch(r"[0-9a-zA-Z]{1,64}", commit):
        raise HubError(f"{CONFIG.hub_url} named no commit of {ref.repository}")
    return Listing(ref, commit, _licence(about), tuple(_chosen(ref, siblings)))


def file_path(listing: Listing, file: HubFile) -> str:
    return f"/{listing.ref.repository}/resolve/{listing.commit}/{urllib.parse.quote(file.name)}"


def open_url(path: str, offset: int = 0) -> Any:
    """The hub's answer, from byte ``offset`` where it can. The token never follows a redirect to another host."""
    url = CONFIG.hub_url.rstrip("/") + path  # http or https: berth.config sees to it
    request = urllib.request.Request(url, headers={"User-Agent": "berth"})  # noqa: S310
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    token = _token()
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310


def unreachable(error: Exception) -> HubError:
    why = getattr(error, "reason", None) or error
    text = getattr(why, "strerror", None) or str(why) or type(why).__name__
    return HubError(
        f"The model hub {CONFIG.hub_url} cannot be reached ({text}). Try again later, set BERTH_HUB_URL to a mirror, "
        "or register the model from a directory or a package"
    )


def refuse_early(config: Mapping[str, Any]) -> str | None:
    """Why a model with this config.json need not be downloaded; None when nothing speaks against it yet."""
    name = str((config.get("architectures") or [config.get("model_type", "unknown")])[0])
    if name not in SUPPORTED_ARCHITECTURES:
        return f"architecture {name} is not supported; supported: {', '.join(SUPPORTED_ARCHITECTURES)}"
    quantization = config.get("quantization_config")
    if isinstance(quantization, dict):
        method = quantization.get("quant_method", "unknown")
        return f"quantization {method} is not supported; give bf16, fp16 or fp32 weights"
    return None


def _file(entry: Mapping[str, Any]) -> HubFile:
    large = entry.get("lfs") or {}
    size = large.get("size", entry.get("size"))
    return HubFile(
        name=str(entry["rfilename"]),
        size=max(0, int(size if size is not None else 0)),
        sha256=str(large.get("sha256") or ""),
        blob=str(entry.get("blobId") or ""),
    )


def _chosen(ref: HubRef, files: list[HubFile]) -> list[HubFile]:
    if ref.file:
        named = [file for file in files if file.name == ref.file]
        if not named:
            raise HubError(f"{ref.repository} at {ref.revision} holds no file {ref.file}")
        return named
    top = [file for file in files if "/" not in file.name and re.fullmatch(r"[\w. -]{1,200}", file.name)]
    weights = _weights(top)
    if weights:
        side = [file for file in top if file.name.endswith(_SIDE) and not file.name.startswith("._")]
        if sum(file.size for file in side) > _MOST_SIDE_BYTES:
            raise HubError(f"{ref.repository} holds side files of over {_MOST_SIDE_BYTES >> 20} MiB")
        return [*sorted(side, key=lambda file: (file.name != "config.json", file.name)), *weights]
    packed = sorted(file.name for file in files if file.name.endswith(".gguf"))
    if len(packed) == 1:
        return [file for file in files if file.name == packed[0]]
    if packed:
        shown = ", ".join(packed[:5]) + (f" and {len(packed) - 5} more" if len(packed) > 5 else "")
        raise HubError(f"{ref.repository} holds {len(packed)} GGUF files; name one as OWNER/NAME:FILE: {shown}")
    if any(file.name.endswith(_PICKLED) for file in files):
        raise HubError(f"{ref.repository} holds pickled weights only, which are never loaded: choose safetensors")
    raise HubError(f"{ref.repository} holds neither safetensors nor GGUF files")


def _weights(top: list[HubFile]) -> list[HubFile]:
    found = sorted((file for file in top if file.name.endswith(".safetensors")), key=lambda file: file.name)
    if any(file.name == "model.safetensors.index.json" for file in top):
        return [file for file in found if re.fullmatch(r"model-\d+-of-\d+\.safetensors", file.name)] or found
    return [file for file in found if file.name == "model.safetensors"] or found


def _licence(about: Mapping[str, Any]) -> str:
    card = about.get("cardData")
    stated = card.get("license") if isinstance(card, dict) else None
    if isinstance(stated, str):
        return stated[:80]
    tags = about.get("tags")
    named = [str(tag)[8:] for tag in tags if str(tag).startswith("license:")] if isinstance(tags, list) else []
    return named[0][:80] if named else ""


def _refused(ref: HubRef, error: urllib.error.HTTPError) -> str:
    where = f"{ref.repository} at {ref.revision}" if ref.revision != "main" else ref.repository
    if error.code == 404:
        return f"{CONFIG.hub_url} has no model {where}"
    if error.code in (401, 403):
        return (
            f"{CONFIG.hub_url} does not give {where} to us: it does not exist, or is private or gated. For the latter "
            "an operator puts an access token into the file hub_token among the secrets"
        )
    return f"{CONFIG.hub_url} answered {error.code} {error.reason} for {where}"


def _token() -> str:
    try:
        return (CONFIG.secrets / "hub_token").read_text().strip()
    except OSError:
        return ""
