"""What a request brings that another door has begun to answer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from starlette.datastructures import Headers

from gpuruntime.backend import BackendInfo
from gpuruntime.door.asked import Asked
from gpuruntime.door.errors import ApiError, bad_request
from gpuruntime.marks import Begun, read_marks
from gpuruntime.openai_api import MAX_BODY_BYTES
from gpuruntime.protocol import RESUME, RuntimeConfig

MAX_MARKS_BYTES = 8 << 20  # some million tokens
NONE = Begun()


def model_id(config: RuntimeConfig) -> str:
    """Of which model a door's tokens are. A node keeps each under its digest, so a folder's name says enough."""
    return hashlib.sha256(Path(config.model_path).name.encode()).hexdigest()[:16]


def most_bytes(headers: Headers) -> int:
    return MAX_BODY_BYTES + (MAX_MARKS_BYTES if RESUME in headers else 0)


def split_body(headers: Headers, body: bytes, model: str) -> tuple[bytes, Mapping[int, Begun]]:
    """The request, and by choice what the client has of its answer. Raises ``ApiError``.

    409 (``other_model``) where that was written by another model, whose tokens say something else to this one.
    """
    given = headers.get(RESUME)
    if given is None:
        return body, {}
    size, _, of_model = given.partition(" ")
    if of_model != model:
        text = "The answer was begun by another model than this replica's."
        raise ApiError(409, text, code="other_model")
    try:
        return body[: int(size)], read_marks(body[int(size) :])
    except ValueError as error:
        raise bad_request(f"Invalid '{RESUME}': {error}", RESUME) from error


def leader_of(begun: Mapping[int, Begun], choices: range) -> int:
    """Which of one prompt's choices goes first: one that the client has nothing of, which can score the prompt."""
    running = [at for at in choices if begun.get(at, NONE).finish_reason is None]
    return next((at for at in running if at not in begun), (running or choices)[0])


def check_resumed(begun: Mapping[int, Begun], choices: int, asked: Asked, info: BackendInfo) -> None:
    """Raises ``ApiError`` for an answer that this replica cannot go on with."""
    if not begun:
        return
    if not info.resumes:
        raise ApiError(409, f"The engine of this replica ({info.engine}) begins answers only.", code="other_model")
    if not asked.stream or max(begun) >= choices:
        raise bad_request(f"Invalid '{RESUME}': it is for a stream of {choices} choices.", RESUME)
