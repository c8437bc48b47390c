"""All of Django's routes. ``/v1``, ``/internal``, ``/ws`` and the health checks never reach Django (berth.asgi)."""

from django.urls import URLPattern, URLResolver, include, path, re_path

from berth.config import CONFIG
from berth.console.views import index

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include("berth.api.urls")),
    *([path("", include("berth.oidc.urls"))] if CONFIG.oidc_issuer else []),
    re_path(r"^(?!api/|static/|v1/|ws/|internal/)(?P<path>.*)$", index),
]

handler400 = "berth.api.errors.bad_request"
handler404 = "berth.api.errors.unknown_route"
handler500 = "berth.api.errors.server_error"
