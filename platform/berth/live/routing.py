"""Which websocket is whose."""

from __future__ import annotations

from channels.routing import URLRouter
from django.urls import path

from berth.live.agent import AgentConsumer
from berth.live.console import ConsoleConsumer
from berth.live.runtime import RuntimeConsumer

websocket_app = URLRouter(
    [
        path("ws/agent", AgentConsumer.as_asgi()),
        path("ws/runtime", RuntimeConsumer.as_asgi()),
        path("ws/console", ConsoleConsumer.as_asgi()),
    ]
)
