"""How a door takes a request that the engine runs: read, prepared, and known to the replica while it is served."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gpuruntime.door.arrival import ClientLeft, read_body, request_id_of
from gpuruntime.door.errors import ApiError
from gpuruntime.door.replica import Active, Replica
from gpuruntime.door.respond import send_error
from gpuruntime.door.resumed import most_bytes
from gpuruntime.door.trace import begin


class Running(Active, Protocol):
    """``run.Run``, ``embeddings.EmbeddingRun``."""

    async def serve(self, receive: Receive, send: Send) -> None:
        """Until the client has its answer, or is gone."""
        ...


class Endpoint(ABC):
    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        request_id = request_id_of(headers)
        try:
            body = await read_body(receive, most_bytes(headers))
            run = await self._prepare(body, headers, request_id)
        except ClientLeft:
            return
        except ApiError as error:
            await send_error(send, error, request_id)
            return
        self._replica.entered(run)
        run.account.trace = begin(self._replica.tracing, headers, run.account, self._replica.config.deployment)
        try:
            await run.serve(receive, send)
        finally:
            self._replica.left(run)
            if run.account.trace is not None:
                run.account.trace.end("refused")  # of no effect on one that was counted

    @abstractmethod
    async def _prepare(self, body: bytes, headers: Headers, request_id: str) -> Running:
        """Raises ``ApiError`` for what is not run."""
