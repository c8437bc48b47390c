"""Which websocket is whose."""

from __future__ import annotations

from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import URLRouter
from django.urls import path, re_path

from berth.live.agent import AgentConsumer
from berth.live.console import ConsoleConsumer
from berth.live.runtime import RuntimeConsumer


class NothingHere(AsyncWebsocketConsumer):
    """Refuses: a path without a route would be an exception, and a trace in the log for whoever asks."""

    channel_layer_alias = "none"

    async def connect(self) -> None:
        await self.close()


websocket_app = URLRouter(
    [
        path("ws/agent", AgentConsumer.as_asgi()),
        path("ws/runtime", RuntimeConsumer.as_asgi()),
        path("ws/console", ConsoleConsumer.as_asgi()),
        re_path("", NothingHere.as_asgi()),
    ]
)
