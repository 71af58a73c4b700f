"""A broker in memory as the API sees it."""

import asyncio
from typing import Any, Final

from streaming.amqp.login import User
from streaming.amqp.memory import MemoryBroker
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.commands import Command, ImportDefinitions
from streaming.broker.events import Actor
from streaming.broker.outbound import AnswerOut
from streaming.management.pacing import next_turn
from streaming.management.port import VhostInfo
from streaming.management.server_front import ServerFront
from streaming.protocol.definitions_portions import portions

_PORTION_BYTES: Final = 65_536
"""Definitions that are declared in one go: some 700 queues, in 50 ms."""


class MemoryFront(ServerFront):
    """The front of a `MemoryBroker`; see `Front`."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker.server, broker.clock.now_ms)
        self.broker = broker
        self._parameters: dict[str, Any] = {"cluster_tags": [], "internal_cluster_id": "dlx-stream"}
        self.server.opened.append(self._opened)

    async def do(self, vhost: OpenVhost, actor: Actor, command: Command) -> AnswerOut:
        """See `Front`; between parts of large definitions, clients are served."""
        if not isinstance(command, ImportDefinitions):
            return await super().do(vhost, actor, command)
        answers = []
        for part in await asyncio.to_thread(portions, command.definitions, _PORTION_BYTES):
            answers.append(await super().do(vhost, actor, part))
            if answers[-1].refusal is not None:
                break
            await next_turn()
        return answers[-1]

    def not_serving(self) -> str:
        """See `Front`."""
        return ""

    def expect_changeable(self, users: list[User], vhosts: list[str]) -> None:
        """See `Front`: everything is."""

    async def put_vhost(self, name: str, info: VhostInfo, by: Actor) -> bool:  # noqa: ARG002 - it is in no log
        """See `Front`."""
        new = name not in self.server.vhosts
        self.broker.add_vhost(name).default_queue_type = info.default_queue_type
        self._infos[name] = info
        return new

    async def delete_vhost(self, name: str, by: Actor) -> None:  # noqa: ARG002 - it is in no log
        """See `Front`."""
        self.broker.delete_vhost(name)

    async def put_user(self, user: User, by: Actor) -> bool:  # noqa: ARG002 - it is in no log
        """See `Front`."""
        users = self.server.users.by_name
        new = user.name not in users
        users[user.name] = user
        return new

    async def delete_user(self, name: str, by: Actor) -> None:
        """See `Front`."""
        await self.clear_user(name, by)
        self.forget_user(name)

    async def put_global_parameter(self, name: str, value: Any, by: Actor) -> bool:  # noqa: ARG002 - it is in no log
        """See `Front`."""
        new = name not in self._parameters
        self._parameters[name] = value
        return new

    async def delete_global_parameter(self, name: str, by: Actor) -> bool:  # noqa: ARG002 - it is in no log
        """See `Front`."""
        return self._parameters.pop(name, _NONE) is not _NONE

    def global_parameters(self) -> dict[str, Any]:
        """See `Front`."""
        return self._parameters

    def _opened(self, vhost: OpenVhost) -> None:
        """Nothing is known yet of a new vhost, whatever was known of one of its name."""
        self._infos.pop(vhost.name, None)


_NONE = object()
