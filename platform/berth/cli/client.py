"""HTTP to one Berth: the management API with a key or a session, and ``/v1`` with an API key."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from berth.cli.credentials import Credentials
from berth.cli.operations import Operation

TIMEOUT_S = 30
STREAM_TIMEOUT_S = 600
PAGE_SIZE = 200


class Failed(Exception):
    """One sentence for whoever typed the command. ``code``: the API's, where it answered."""

    def __init__(self, message: str, *, code: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class Event:
    """One of a server-sent stream."""

    name: str
    data: str


class Client:
    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        parts = urlsplit(credentials.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Failed(f"{credentials.url!r} is no address of Berth; expected http://HOST:PORT or https://HOST")
        self._parts = parts

    # --- the management API ---------------------------------------------------------------------------------------

    def call(
        self, operation: Operation, object_id: str = "", query: Mapping[str, Any] | None = None, **body: Any
    ) -> Any:
        """The decoded answer. Raises ``Failed``."""
        path = "/api/v1/" + operation.path.replace("{id}", quote(object_id, safe=""))
        return self._json(operation.method, self._with(path, query), body or None)

    def text(self, operation: Operation, query: Mapping[str, Any] | None = None) -> str:
        """An answer that is no JSON. Raises ``Failed``."""
        connection = self._connect(TIMEOUT_S)
        try:
            path = self._with("/api/v1/" + operation.path, query)
            answer = self._ask(connection, "GET", path, None, {"accept": "text/csv", **self._authorization("GET")})
            body = answer.read()
            if answer.status >= 400:
                raise _problem(answer.status, body, self.credentials)
            return body.decode()
        finally:
            connection.close()

    def rows(self, operation: Operation, query: Mapping[str, Any] | None = None, most: int = 1000) -> list[Any]:
        """All pages of a list, up to ``most`` rows."""
        page = self.call(operation, query={"page_size": PAGE_SIZE, **(query or {})})
        found = list(page["results"])
        while page["next"] and len(found) < most:
            parts = urlsplit(page["next"])
            page = self._json("GET", f"{parts.path}?{parts.query}", None)
            found += page["results"]
        return found[:most]

    def _json(self, method: str, path: str, body: Any) -> Any:
        headers = {"accept": "application/json", **self._authorization(method)}
        data = None
        if body is not None:
            data = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
            headers["content-type"] = "application/json"
        elif method != "GET":
            data, headers["content-type"] = b"{}", "application/json"
        connection = self._connect(TIMEOUT_S)
        try:
            answer = self._ask(connection, method, path, data, headers)
            text = answer.read()
            self._keep_cookies(answer)
            if answer.status >= 400:
                raise _problem(answer.status, text, self.credentials)
            return json.loads(text) if text else None
        except ValueError as error:
            raise Failed(f"{self.credentials.url} did not answer as Berth does; is the address right?") from error
        finally:
            connection.close()

    def _authorization(self, method: str) -> dict[str, str]:
        credentials = self.credentials
        if credentials.key:
            return {"authorization": f"Bearer {credentials.key}"}
        if not credentials.cookies:
            return {}
        headers = {"cookie": "; ".join(f"{name}={value}" for name, value in credentials.cookies.items())}
        if method != "GET" and "csrftoken" in credentials.cookies:
            headers |= {"x-csrftoken": credentials.cookies["csrftoken"], "referer": credentials.url + "/"}
        return headers

    def _keep_cookies(self, answer: http.client.HTTPResponse) -> None:
        for line in answer.headers.get_all("set-cookie") or []:
            for name, morsel in SimpleCookie(line).items():
                if morsel.value:
                    self.credentials.cookies[name] = morsel.value
                else:
                    self.credentials.cookies.pop(name, None)

    # --- /v1 ------------------------------------------------------------------------------------------------------

    def stream(self, path: str, body: Mapping[str, Any], token: str) -> Iterator[Event]:
        """The events of a streamed answer, as they come. Raises ``Failed``."""
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json", "x-berth-verdict": "1"}
        connection = self._connect(STREAM_TIMEOUT_S)
        try:
            answer = self._ask(connection, "POST", path, json.dumps(body).encode(), headers)
            if answer.status != 200:
                raise _openai_error(answer.status, answer.read())
            name = ""
            while line := answer.readline():
                text = line.decode(errors="replace").rstrip("\r\n")
                if text.startswith("event: "):
                    name = text[7:]
                elif text.startswith("data: "):
                    yield Event(name, text[6:])
                elif not text:
                    name = ""
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"The stream broke: {error}") from error
        finally:
            connection.close()

    # --- both -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _with(path: str, query: Mapping[str, Any] | None) -> str:
        given = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        return f"{path}?{urlencode(given)}" if given else path

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> http.client.HTTPResponse:
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, data, headers)
            return connection.getresponse()
        except TimeoutError as error:
            raise Failed(f"{self.credentials.url} does not answer within {connection.timeout:g} s") from error
        except ssl.SSLError as error:
            raise Failed(f"{self.credentials.url}: TLS failed: {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Failed(f"{self.credentials.url} cannot be reached: {why}. Is Berth running there?") from error


def _problem(status: int, text: bytes, credentials: Credentials) -> Failed:
    """RFC 9457, as ``api/errors.py`` makes it."""
    try:
        body = json.loads(text)
        detail, code = str(body["detail"]), str(body.get("code", ""))
    except (ValueError, KeyError, TypeError):
        return Failed(
            f"{credentials.url} answered {status} and not as Berth does; is the address right?", status=status
        )
    if status == 401 and code != "mfa_required":
        anew = "" if credentials.anonymous else " anew"
        detail = f"{detail.rstrip('.')}. Sign in{anew} with: berth login"
    if status == 404 and code == "not_found":
        detail = "There is no such thing, or it is not yours"
    return Failed(detail, code=code, status=status)


def _openai_error(status: int, text: bytes) -> Failed:
    try:
        error = json.loads(text)["error"]
        return Failed(str(error["message"]), code=str(error.get("code") or ""), status=status)
    except (ValueError, KeyError, TypeError):
        return Failed(f"The gateway answered {status}", status=status)
