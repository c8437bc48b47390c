"""Errors a caller can act on: a stable code, one clear sentence, an HTTP status, the field where there is one."""

from __future__ import annotations


class BerthError(Exception):
    code = "error"
    status = 500

    def __init__(self, message: str, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        if code is not None:
            self.code = code


class Invalid(BerthError):
    code = "invalid"
    status = 400


class NotFound(BerthError):
    """Also for what exists and belongs to another tenant."""

    code = "not_found"
    status = 404


class Forbidden(BerthError):
    """The caller may see the object but not do this to it."""

    code = "forbidden"
    status = 403


class Conflict(BerthError):
    code = "conflict"
    status = 409


class NoRoom(BerthError):
    """No device can hold the replica; the message says what was needed and what each device has."""

    code = "no_room"
    status = 409
