"""What fronts of any kind do alike."""

from collections.abc import Callable, Collection

import msgspec

from streaming.amqp.errors import CONNECTION_FORCED, error
from streaming.amqp.server import Server
from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.outbound import AnswerOut
from streaming.management.errors import GONE, ApiError
from streaming.management.port import VhostInfo
from streaming.management.sessions import Session, carry_out, open_session


class ServerFront:
    """Vhosts and connections of a server; see `Front`.

    Args:
        now_ms: the clock of the broker, epoch milliseconds.
    """

    def __init__(self, server: Server, now_ms: Callable[[], int]) -> None:
        self.server = server
        self.now_ms = now_ms
        self.started_ms = now_ms()
        self._infos: dict[str, VhostInfo] = {}

    def implied_in(self, vhost: OpenVhost) -> Collection[str]:
        """See `Front`."""
        return vhost.shard.vhost.administrators

    def info(self, vhost_name: str) -> VhostInfo:
        """See `Front`."""
        vhost = self.server.vhosts.get(vhost_name)
        if vhost is None:
            return VhostInfo()
        said = self._infos.get(vhost_name, VhostInfo())
        return msgspec.structs.replace(said, default_queue_type=vhost.default_queue_type)

    async def do(self, vhost: OpenVhost, actor: Actor, command: commands.Command) -> AnswerOut:
        """See `Front`."""
        return await carry_out(self.server, vhost, actor, command)

    async def open_session(self, vhost: OpenVhost, user: str) -> Session:
        """See `Front`."""
        return await open_session(self.server, vhost, user)

    async def close_connection(self, name: str, reason: str) -> None:
        """See `Front`."""
        for connection in list(self.server.connections):
            if connection.name == name:
                connection.end(error(CONNECTION_FORCED, reason))
        self.server.turn_ended()

    async def clear_user(self, name: str, by: Actor) -> None:
        """Take the permissions of a user away in all vhosts."""
        await self.do_in(
            list(self.server.vhosts.values()),
            by,
            commands.ClearPermissions(user=name),
            commands.ClearTopicPermissions(user=name),
        )

    async def do_in(self, vhosts: list[OpenVhost], by: Actor, *wanted: commands.Command) -> None:
        """Carry out commands in several vhosts; one that is deleted meanwhile needs none."""
        for vhost in vhosts:
            try:
                for command in wanted:
                    await self.do(vhost, by, command)
            except ApiError as error:
                if error.status != GONE:
                    raise

    def forget_user(self, name: str) -> None:
        """Let a user in no more; its connections end."""
        self.server.users.by_name.pop(name, None)
        for connection in list(self.server.connections):
            if connection.user == name:
                connection.end(error(CONNECTION_FORCED, f"user '{name}' is deleted"))
        self.server.turn_ended()
