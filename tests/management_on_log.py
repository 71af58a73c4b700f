"""The API over a vhost on a log without Kafka, which takes everything at once, or when told to."""

import asyncio
from collections.abc import Collection

import msgspec
from starlette.testclient import TestClient

from streaming.amqp.login import User, Users
from streaming.amqp.server import Server
from streaming.broker.events import Actor
from streaming.management.app import Management
from streaming.management.counting import Counting
from streaming.management.logged import LogFront
from streaming.sequencer.emptying import empty
from streaming.sequencer.log_vhost import LogVhost
from streaming.sequencer.records import Record
from tests.log_port import CONFIG, LogPort
from tests.management_api import Api
from topology.errors import DlxError


class PromptLog(LogPort):
    """A log that takes records by itself.

    Attributes:
        is_prompt: whether it does.
    """

    def __init__(self, vhost: str) -> None:
        super().__init__(config=msgspec.structs.replace(CONFIG, vhost=vhost))
        self.is_prompt = False

    def lead(self) -> LogVhost:
        """A vhost that leads."""
        vhost = self.open()
        self.run()
        vhost.acknowledged(self.write())
        self.is_prompt = True
        return vhost

    def soon(self, step):
        """See `Host`."""
        if self.is_prompt:
            asyncio.get_running_loop().call_soon(step)
        else:
            super().soon(step)

    def append(self, vhost: LogVhost, records: Collection[Record]) -> int:
        """See `Host`."""
        taken = super().append(vhost, records)
        if self.is_prompt and taken == len(records):
            asyncio.get_running_loop().call_soon(self._acknowledge, vhost)
        return taken

    def _acknowledge(self, vhost: LogVhost) -> None:
        if self.is_prompt and self.sent:
            vhost.acknowledged(self.write())


class VhostsOnLogs:
    """Makes vhosts, each on a log of its own."""

    def __init__(self, server: Server, configured: str) -> None:
        self._server = server
        self._configured = configured
        self._going: set[str] = set()
        self.ports: dict[str, PromptLog] = {}

    def is_elsewhere(self, name: str) -> bool:
        """See `VhostChanges`."""
        return name == "elsewhere"

    def is_configured(self, name: str) -> bool:
        """See `VhostChanges`."""
        return name == self._configured

    def is_going(self, name: str) -> bool:
        """See `VhostChanges`."""
        return name in self._going

    def expect_makeable(self, name: str) -> None:
        """See `VhostChanges`."""
        if name.startswith("bad"):
            raise DlxError(f"vhost '{name}' cannot be made here")

    async def make(self, name: str) -> bool:
        """See `VhostChanges`."""
        if name == "slow":
            raise ConnectionError("Kafka does not answer")
        port = self.ports[name] = PromptLog(name)
        self._server.add_vhost(port.lead())
        return True

    async def delete(self, name: str, by: Actor) -> None:
        """See `VhostChanges`."""
        if name == self._configured:
            raise DlxError(f"vhost '{name}' is set in dlx.toml")
        vhost = self._server.vhosts[name]
        assert isinstance(vhost, LogVhost)
        self._going.add(name)
        self._server.delete_vhost(name)
        await empty(vhost, by)


class OnLog:
    """A front of a log, and its API.

    Args:
        before: a front of the same log that ended.
        users: that a file sets; none: guest, whom no file sets.

    Attributes:
        why_not: why nothing is served.
    """

    def __init__(
        self, before: "OnLog | None" = None, users: tuple[User, ...] = (), vhost: str = "/"
    ) -> None:
        self.why_not = ""
        known = Users(list(users)) if users else Users.default()
        self.server = Server({}, known, lambda _user, _vhost: True)
        self.server.follows_wall_clock = False
        self.port = PromptLog(vhost)
        if before is not None:
            self.port.records = list(before.port.records)
            self.port.now_ms = before.port.now_ms
        self.vhosts = VhostsOnLogs(self.server, vhost)
        self.front = LogFront(
            self.server,
            lambda: self.port.now_ms,
            {user.name for user in users},
            self.vhosts,
            lambda: self.why_not,
        )
        self.server.elsewhere = (vhost, "elsewhere")
        self.counting = Counting()
        self.management = Management(self.front, counting=self.counting)
        self.vhost = self.port.lead()
        self.server.add_vhost(self.vhost)
        self.client = TestClient(self.management, client=("127.0.0.1", 50_000))
        self.api = Api(self.client)
