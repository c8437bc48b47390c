"""Structured logs: one JSON object a line, with the request id where there is one; never a prompt, key or text."""

from __future__ import annotations

import structlog
from django.http import HttpRequest


class JsonFormatter(structlog.stdlib.ProcessorFormatter):
    """Formats the standard library's records: event, level, logger, time, ``extra`` fields, exception."""

    def __init__(self) -> None:
        shared: list[structlog.typing.Processor] = [
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            _shorten_request,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ]
        super().__init__(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )


def _shorten_request(
    logger: structlog.typing.WrappedLogger, name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Django adds the request, which writes its address with the query: people put keys and passwords into those."""
    request = event.pop("request", None)
    if isinstance(request, HttpRequest):
        event["method"], event["path"] = request.method, request.path
    return event


def current_request_id() -> str:
    """The id of the request being served, or an empty string outside one."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))
