"""``/ws/console``: one socket a browser tab: it says which tenant, or "platform", it shows and gets its windows.

The session and the membership behind it are looked at again every few seconds; when they end, so does the socket.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.db import DatabaseError
from django.http import HttpRequest
from redis.exceptions import RedisError

from berth.live import names
from berth.live.store import client
from berth.live.threads import in_thread
from berth.tenants.models import User
from berth.tenants.selectors import role_in
from berth.tenants.sessions import public_id
from berth.tenants.signin import lacks_second_factor

PLATFORM = "platform"
RECHECK_S = 2.0
NOT_SIGNED_IN = 4401
NOT_ALLOWED = 4403
BAD_MESSAGE = 4400
TRY_LATER = 1013
MOST_CHARS = 1000
_SCOPE = re.compile(r"platform|ten_[0-9a-z]{26}")

log = logging.getLogger(__name__)


class ConsoleConsumer(AsyncWebsocketConsumer):
    shown = ""
    group = ""
    session_key = ""
    session_group = ""
    rechecking: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        headers = {key: value.decode("latin-1") for key, value in self.scope["headers"]}
        if not same_origin(headers.get(b"origin", ""), headers.get(b"host", "")):
            await self.close()
            return
        self.session_key = _session_key(headers.get(b"cookie", ""))
        await self.accept()
        code = await self._refusal("")
        if code:
            await self.close(code)
            return
        self.session_group = names.session_group(public_id(self.session_key))
        await self.channel_layer.group_add(self.session_group, self.channel_name)
        self.rechecking = asyncio.create_task(self._recheck())

    async def disconnect(self, code: int) -> None:
        if self.rechecking is not None:
            self.rechecking.cancel()
        await self._leave()
        if self.session_group:
            await self.channel_layer.group_discard(self.session_group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        wanted = _scope_of(text_data or "")
        if not wanted:
            await self.close(BAD_MESSAGE)
            return
        code = await self._refusal(wanted)
        if code:
            await self.close(code)
            return
        await self._leave()
        self.shown = wanted
        self.group = names.PLATFORM_GROUP if wanted == PLATFORM else names.console_group(wanted)
        # Before the history is read: what is told meanwhile waits behind it, and a console knows a window it has.
        await self.channel_layer.group_add(self.group, self.channel_name)
        await self._send_history()

    async def console_message(self, event: dict[str, Any]) -> None:
        data = event["data"]
        if data.get("type") != "window" or data.get("scope") == self.shown:
            await self.send(json.dumps(data))

    async def session_ended(self, event: dict[str, Any]) -> None:
        await self.close(NOT_SIGNED_IN)

    async def _leave(self) -> None:
        if self.group:
            group, self.group = self.group, ""
            await self.channel_layer.group_discard(group, self.channel_name)

    async def _send_history(self) -> None:
        try:
            kept: list[Any] = await client().lrange(names.history(self.shown), 0, -1)
        except (RedisError, OSError) as error:
            log.warning("history_not_read", extra={"error": str(error)})
            kept = []
        await self.send('{"type":"history","windows":[' + ",".join(kept) + "]}")

    async def _refusal(self, wanted: str) -> int:
        """0 when this session may see ``wanted`` (empty: anything), else the code to close with."""
        try:
            return await in_thread(_refusal_of, self.session_key, wanted)
        except DatabaseError as error:
            log.warning("console_not_checked", extra={"error": str(error).strip()})
            return TRY_LATER

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_S)
            code = await self._refusal(self.shown)
            if code and code != TRY_LATER:  # it was allowed a moment ago; the next look decides
                await self.close(code)
                return


def _scope_of(text: str) -> str:
    """The scope a client asks for; empty for what is no such message."""
    if len(text) > MOST_CHARS:
        return ""
    try:
        wanted = json.loads(text)["subscribe"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return wanted if isinstance(wanted, str) and _SCOPE.fullmatch(wanted) else ""


def same_origin(origin: str, host: str) -> bool:
    """A browser's page may connect from where it was served, or from a trusted origin. No Origin is no browser."""
    if not origin or not host:
        return False
    return urlsplit(origin).netloc == host or origin in getattr(settings, "CSRF_TRUSTED_ORIGINS", [])


def _session_key(cookies: str) -> str:
    try:
        morsel = SimpleCookie(cookies).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return ""
    return morsel.value if morsel is not None else ""


def _user_of(session_key: str) -> User | None:
    """The active user of a session, checked as Django checks a request's."""
    if not session_key:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(request)
    if not isinstance(user, User) or not user.is_active or lacks_second_factor(user, request.session):
        return None
    return user


def _refusal_of(session_key: str, scope: str) -> int:
    user = _user_of(session_key)
    if user is None:
        return NOT_SIGNED_IN
    if scope == PLATFORM:
        return 0 if user.is_operator else NOT_ALLOWED
    return 0 if not scope or role_in(user, scope) is not None else NOT_ALLOWED
