"""Who is at the other end of a machine's connection: a node's token, a replica's token."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from berth.core.secrets import replica_token
from berth.fleet.models import Node
from berth.fleet.selectors import node_by_token

RawHeaders = Iterable[tuple[bytes, bytes]]


def _header(headers: RawHeaders, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in headers if key == name), "")


def bearer(headers: RawHeaders) -> str:
    scheme, _, token = _header(headers, b"authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def node_of(headers: RawHeaders) -> Node | None:
    """The node that opens the connection. Asks the database."""
    headers = list(headers)
    name, token = _header(headers, b"x-berth-node"), bearer(headers)
    return node_by_token(name, token) if name and token else None


def replica_of(headers: RawHeaders) -> str | None:
    """The id of the replica that opens the connection; its token is derived from it."""
    headers = list(headers)
    replica_id = _header(headers, b"x-berth-replica")
    if replica_id and hmac.compare_digest(bearer(headers).encode(), replica_token(replica_id).encode()):
        return replica_id
    return None
