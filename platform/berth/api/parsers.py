"""The body of a request: JSON, of bounded size and depth."""

from __future__ import annotations

import io
from typing import IO, Any

from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser

MAX_BODY_BYTES = 1 << 20


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"
    default_detail = f"The body is larger than {MAX_BODY_BYTES} bytes"


class BoundedJSONParser(JSONParser):
    def parse(self, stream: IO[Any], media_type: str | None = None, parser_context: Any = None) -> Any:
        data = stream.read(MAX_BODY_BYTES + 1)
        if len(data) > MAX_BODY_BYTES:
            raise TooLarge
        try:
            return super().parse(io.BytesIO(data), media_type, parser_context or {})
        except RecursionError as error:
            raise ParseError("JSON parse error - nested too deeply") from error
