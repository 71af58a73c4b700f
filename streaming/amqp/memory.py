"""A whole broker in memory: what `dlx amqp --memory` and the pytest plugin start.

Its topology and users come from a definitions.json, or are those of a new RabbitMQ: the vhost `/`
and the user `guest`, who may do everything from this host. Nothing is written anywhere.
"""

from collections.abc import Mapping
from typing import Any

from streaming.amqp.clocks import Clock
from streaming.amqp.entries import Ask
from streaming.amqp.inspection import Deaths
from streaming.amqp.login import LOOPBACK_USER, User, Users
from streaming.amqp.server import Server
from streaming.amqp.vhosts import AnswerListener, OpenVhost
from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.outbound import AnswerOut
from topology.definitions.load import load_definitions
from topology.errors import InvalidTopologyError, Problem
from topology.limits import read_user_limits
from topology.values import Compat

DEFAULT_VHOST = "/"
_OPERATOR = Actor(None, "definitions")


class MemoryBroker:
    """A server, its vhosts in memory, and its clock.

    Attributes:
        skipped: what the definitions hold and is not supported.
        deaths: what died, by vhost.
    """

    def __init__(
        self,
        clock: Clock,
        compat: Compat = "4.0",
        *,
        with_certificates: bool = False,
        high_mark_bytes: int | None = None,
    ) -> None:
        self.clock = clock
        self.compat: Compat = compat
        self.skipped: tuple[Problem, ...] = ()
        self.server = Server(
            {},
            Users.default(),
            self._may_open,
            with_certificates=with_certificates,
            high_mark_bytes=high_mark_bytes,
        )
        self.deaths: dict[str, Deaths] = {}
        self._begin()

    def _begin(self) -> None:
        """Be as a new RabbitMQ is."""
        self.server.users = Users.default()
        self.grant(self.add_vhost(DEFAULT_VHOST), LOOPBACK_USER)

    def add_vhost(self, name: str) -> OpenVhost:
        """Make a vhost; one that exists stays as it is."""
        found = self.server.vhosts.get(name)
        if found is None:
            config = ShardConfig(
                vhost=name, compat=self.compat, clock="event", enforce_permissions=True
            )
            found = self.open(config)
            self.server.add_vhost(found)
            self.deaths[name] = Deaths(found)
        return found

    def open(self, config: ShardConfig) -> OpenVhost:
        """Open a new vhost."""
        return OpenVhost(config, self.clock.now_ms)

    def grant(self, vhost: OpenVhost, user: str) -> None:
        """Let a user do everything in a vhost."""
        everything = commands.SetPermissions(user=user, configure=".*", write=".*", read=".*")
        self.do(vhost, everything)

    def delete_vhost(self, name: str) -> None:
        """Delete a vhost with everything in it, permissions too; its connections end.

        Raises:
            KeyError: there is no such vhost.
        """
        self.server.delete_vhost(name)
        del self.deaths[name]

    def reset(self) -> None:
        """Forget everything; no connection may be open."""
        self.server.vhosts.clear()
        self.deaths.clear()
        self.skipped = ()
        self._begin()

    def load(self, document: Mapping[str, Any]) -> None:
        """Declare what a definitions document holds: vhosts, users, permissions and topology.

        Raises:
            InvalidTopologyError: it cannot be used; nothing of it was declared in the vhost that
                the text names, or after it.
        """
        loaded = load_definitions(document, default_vhost=DEFAULT_VHOST, compat=self.compat)
        self.skipped = loaded.skipped
        users = users_in(document)
        if users:
            self.server.users = Users(users)
        for name in loaded.vhosts:
            command = commands.ImportDefinitions(definitions=dict(document))
            vhost = self.add_vhost(name)
            vhost.default_queue_type = loaded.default_queue_types.get(name, "classic")
            answer = self.do(vhost, command)
            if answer.refusal is not None:
                raise InvalidTopologyError([Problem(f"vhost '{name}'", answer.refusal.text)])

    def _may_open(self, user: User, vhost_name: str) -> bool:
        return self.server.vhosts[vhost_name].shard.vhost.permissions.knows(user.name)

    def do(self, vhost: OpenVhost, command: commands.Command) -> AnswerOut:
        """Carry out a command of the operator; return the answer."""
        answers: list[AnswerOut] = []
        vhost.listen(_OPERATOR.channel, AnswerListener(answers.append))
        vhost.submit(Ask(_OPERATOR, command))
        vhost.forget(_OPERATOR.channel)
        return answers[-1]


def users_in(document: Mapping[str, Any]) -> list[User]:
    """The users of a definitions document, which `load_definitions` has checked."""
    return [_user(entry) for entry in document.get("users", ())]


def _user(entry: Mapping[str, Any]) -> User:
    tags = entry.get("tags", ())
    return User(
        str(entry.get("name", "")),
        entry.get("password_hash"),
        entry.get("hashing_algorithm", "rabbit_password_hashing_sha256"),
        tuple(tags.split(",")) if isinstance(tags, str) else tuple(tags),
        limits=read_user_limits(entry.get("limits", {})),
    )
