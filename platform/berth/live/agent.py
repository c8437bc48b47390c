"""``/ws/agent``: an agent says what is on its node, and hears what should be.

It gets the node's whole desired state on connect, on ``desired.changed``, and while it reports an older generation.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError
from redis.exceptions import RedisError

from berth.deployments.models import Replica
from berth.deployments.services import observe_replicas
from berth.fleet.models import Node
from berth.fleet.services import Superseded, desired_for, observe_node
from berth.live import names
from berth.live.peers import node_of
from berth.live.store import client
from berth.live.threads import in_thread
from gpuruntime import protocol

log = logging.getLogger(__name__)


class AgentConsumer(AsyncWebsocketConsumer):
    node: Node | None = None
    sent_generation = -1

    async def connect(self) -> None:
        self.own: set[str] = set()
        self.session = secrets.token_hex(16)
        try:
            self.node = await in_thread(node_of, self.scope["headers"])
        except DatabaseError as error:
            log.warning("agent_not_checked", extra={"error": str(error).strip()})
        if self.node is None:
            await self.close()
            return
        await self.channel_layer.group_add(names.node_group(self.node.id), self.channel_name)
        await self.accept()
        log.info("agent_connected", extra={"node": self.node.name})

    async def disconnect(self, code: int) -> None:
        if self.node is not None:
            await self.channel_layer.group_discard(names.node_group(self.node.id), self.channel_name)
            log.info("agent_gone", extra={"node": self.node.name, "code": code})

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.node is None:
            return
        try:
            message = protocol.decode_agent(text_data if text_data is not None else bytes_data or b"")
        except protocol.ProtocolError as error:
            log.warning("agent_message_refused", extra={"node": self.node.name, "error": str(error)})
            await self.close(4400)
            return
        try:
            await self._take(self.node, message)
        except Node.DoesNotExist:
            log.warning("agent_of_no_node", extra={"node": self.node.name})
            await self.close(4401)
        except Superseded:
            log.info("agent_report_too_old", extra={"node": self.node.name})
            await self.close(4409)
        except DatabaseError as error:  # the agent repeats itself each second
            log.warning("agent_report_not_kept", extra={"node": self.node.name, "error": str(error).strip()})

    async def _take(self, node: Node, message: protocol.AgentMessage) -> None:
        if isinstance(message, protocol.LogLines):
            if await self._sits_here(node, message.replica_id):
                await self._keep_log(message)
            return
        generation = await in_thread(_observe, node, message, self.session)
        behind = isinstance(message, protocol.Observed) and message.generation < generation
        if isinstance(message, protocol.Hello) or (behind and self.sent_generation < generation):
            await self._send_desired()
        elif behind:
            self.sent_generation = -1  # it was sent; if the next report is still behind, it is sent again

    async def _sits_here(self, node: Node, replica_id: str) -> bool:
        """A node speaks of its own replicas only. Those it spoke of are remembered: a replica never moves."""
        if replica_id not in self.own:
            if not await in_thread(_sits_on, node, replica_id):
                log.warning("log_refused", extra={"node": node.name, "replica": replica_id[:40]})
                return False
            self.own.add(replica_id)
        return True

    async def desired_changed(self, event: dict[str, Any]) -> None:
        try:
            await self._send_desired()
        except DatabaseError as error:  # the next report finds the agent behind
            log.warning("desired_not_read", extra={"error": str(error).strip()})

    async def _send_desired(self) -> None:
        if self.node is not None:
            desired = await in_thread(desired_for, self.node)
            self.sent_generation = desired.generation
            await self.send(protocol.encode(desired))

    async def _keep_log(self, message: protocol.LogLines) -> None:
        """The last lines of a replica that sits on this node."""
        key = names.log(message.replica_id)
        try:
            async with client().pipeline(transaction=True) as pipe:
                if message.reset:
                    pipe.delete(key)
                if message.lines:
                    pipe.rpush(key, *message.lines[-names.LOG_LINES :])
                    pipe.ltrim(key, -names.LOG_LINES, -1)
                pipe.expire(key, names.LOG_TTL_S)
                await pipe.execute()
        except (RedisError, OSError) as error:
            log.warning("log_lines_lost", extra={"replica": message.replica_id, "error": str(error)})


def _observe(node: Node, message: protocol.Hello | protocol.Observed, session: str) -> int:
    """Stores the report; the generation the node should have."""
    row = observe_node(node=node, seen=message, session=session)
    if isinstance(message, protocol.Observed):
        observe_replicas(node=node, observed=message)
    return row.generation


def _sits_on(node: Node, replica_id: str) -> bool:
    if "\0" in replica_id:
        return False
    return bool(Replica.objects.for_platform().filter(id=replica_id, node=node).exists())
