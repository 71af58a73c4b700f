"""A broker in memory as the API sees it."""

from typing import Any

import msgspec

from streaming.amqp.errors import CONNECTION_FORCED, error
from streaming.amqp.login import User
from streaming.amqp.memory import MemoryBroker
from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.outbound import AnswerOut
from streaming.management.port import VhostInfo
from streaming.management.sessions import Session, carry_out, open_session


class MemoryFront:
    """The front of a `MemoryBroker`; see `Front`."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.server = broker.server
        self.started_ms = broker.clock.now_ms()
        self._infos: dict[str, VhostInfo] = {}
        self._parameters: dict[str, Any] = {"cluster_tags": [], "internal_cluster_id": "dlx-stream"}
        self.server.opened.append(self._opened)

    def now_ms(self) -> int:
        """See `Front`."""
        return self.broker.clock.now_ms()

    async def do(self, vhost: OpenVhost, actor: Actor, command: commands.Command) -> AnswerOut:
        """See `Front`."""
        return await carry_out(self.server, vhost, actor, command)

    async def open_session(self, vhost: OpenVhost, user: str) -> Session:
        """See `Front`."""
        return await open_session(self.server, vhost, user)

    def info(self, vhost_name: str) -> VhostInfo:
        """See `Front`."""
        vhost = self.server.vhosts.get(vhost_name)
        if vhost is None:
            return VhostInfo()
        said = self._infos.get(vhost_name, VhostInfo())
        return msgspec.structs.replace(said, default_queue_type=vhost.default_queue_type)

    async def put_vhost(self, name: str, info: VhostInfo) -> bool:
        """See `Front`."""
        new = name not in self.server.vhosts
        self.broker.add_vhost(name).default_queue_type = info.default_queue_type
        self._infos[name] = info
        return new

    async def delete_vhost(self, name: str) -> None:
        """See `Front`."""
        self.broker.delete_vhost(name)

    async def put_user(self, user: User) -> bool:
        """See `Front`."""
        users = self.server.users.by_name
        new = user.name not in users
        users[user.name] = user
        return new

    async def delete_user(self, name: str) -> None:
        """See `Front`."""
        for vhost in list(self.server.vhosts.values()):
            actor = Actor(None, "management")
            await self.do(vhost, actor, commands.ClearPermissions(user=name))
            await self.do(vhost, actor, commands.ClearTopicPermissions(user=name))
        self.server.users.by_name.pop(name, None)
        for connection in list(self.server.connections):
            if connection.user == name:
                connection.end(error(CONNECTION_FORCED, f"user '{name}' is deleted"))
        self.server.turn_ended()

    async def close_connection(self, name: str, reason: str) -> None:
        """See `Front`."""
        for connection in list(self.server.connections):
            if connection.name == name:
                connection.end(error(CONNECTION_FORCED, reason))
        self.server.turn_ended()

    async def put_global_parameter(self, name: str, value: Any) -> bool:
        """See `Front`."""
        new = name not in self._parameters
        self._parameters[name] = value
        return new

    async def delete_global_parameter(self, name: str) -> bool:
        """See `Front`."""
        return self._parameters.pop(name, _NONE) is not _NONE

    def global_parameters(self) -> dict[str, Any]:
        """See `Front`."""
        return self._parameters

    def _opened(self, vhost: OpenVhost) -> None:
        """Nothing is known yet of a new vhost, whatever was known of one of its name."""
        self._infos.pop(vhost.name, None)


_NONE = object()
