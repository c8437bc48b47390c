"""``/internal/models/DIGEST/NAME``: files of ready models, for agents. Outside Django, as they may be gigabytes."""

from __future__ import annotations

import logging
from pathlib import Path

from django.db import DatabaseError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from berth.catalog.files import path_of
from berth.catalog.models import Model, ModelState
from berth.live.peers import RawHeaders, node_of
from berth.live.threads import in_thread

log = logging.getLogger(__name__)


async def _model_file(request: Request) -> Response:
    digest, name = request.path_params["digest"], request.path_params["name"]
    try:
        path = await in_thread(_find, request.scope["headers"], digest, name)
    except DatabaseError as error:
        log.warning("model_file_not_looked_up", extra={"error": str(error).strip()})
        raise HTTPException(503, "The database does not answer.", {"retry-after": "2"}) from error
    return FileResponse(path, media_type="application/octet-stream")


def _find(headers: RawHeaders, digest: str, name: str) -> Path:
    """Only names the model's row lists are served, so no path leads out of its directory."""
    if node_of(headers) is None:
        raise HTTPException(401, "A node's token is needed.")
    if not digest.isalnum():
        raise HTTPException(404, "No such file of a ready model.")
    model = Model.objects.filter(digest=digest, state=ModelState.READY).first()
    path = path_of(digest) / name
    if model is None or name not in model.files or not path.is_file():
        raise HTTPException(404, "No such file of a ready model.")
    return path


files_app = Starlette(routes=[Route("/internal/models/{digest}/{name}", _model_file, methods=["GET"])])
