"""Serves the built console: one page for every path that is no API, its hashed assets below /static/."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

# The build's word for the nonce of a page (frontend/vite.config.ts).
NONCE = "__CSP_NONCE__"
_MISSING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Berth</title></head>
<body><h1>The console is not built</h1>
<p>Run <code>make run</code>, or <code>npm ci &amp;&amp; npm run build</code> in <code>frontend/</code>, and reload.
The API works without it.</p></body></html>
"""


@require_safe
@ensure_csrf_cookie
def index(request: HttpRequest, path: str = "") -> HttpResponse:
    """The page is never cached, what it names is hashed and cached for ever."""
    page = Path(settings.CONSOLE_DIST) / "index.html"
    try:
        nonce = str(request.csp_nonce)  # type: ignore[attr-defined]
        body, status = _read(page, page.stat().st_mtime_ns).replace(NONCE, nonce), 200
    except FileNotFoundError:
        body, status = _MISSING, 503
    return HttpResponse(body, status=status, headers={"Cache-Control": "no-cache"})


@cache
def _read(page: Path, mtime_ns: int) -> str:
    return page.read_text()
