"""A whole broker in memory: what `dlx amqp --memory` and the pytest plugin start.

Its topology and users come from a definitions.json, or are those of a new RabbitMQ: the vhost `/`
and the user `guest`, who may do everything from this host. Nothing is written anywhere.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from streaming.amqp.certificates import CertificateName
from streaming.amqp.clocks import Clock
from streaming.amqp.entries import Ask
from streaming.amqp.inspection import Deaths
from streaming.amqp.login import (
    HASHING_ALGORITHM,
    LOOPBACK_USER,
    OLD_HASHING_ALGORITHM,
    User,
    Users,
    new_password_hash,
)
from streaming.amqp.server import Server
from streaming.amqp.vhosts import AnswerListener, OpenVhost
from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.outbound import AnswerOut
from streaming.protocol.defaults import DEFAULT_VHOST
from topology.definitions.load import load_definitions
from topology.errors import InvalidTopologyError, Problem
from topology.limits import UserLimits
from topology.values import Compat

_OPERATOR = Actor(None, "definitions")


class MemoryBroker:
    """A server, its vhosts in memory, and its clock.

    Args:
        login_from: see `Server`.
        remote_guest: the user guest may connect from other hosts, too.

    Attributes:
        skipped: what the definitions hold and is not supported.
        deaths: what died, by vhost.
    """

    def __init__(
        self,
        clock: Clock,
        compat: Compat = "4.0",
        *,
        login_from: CertificateName | None = None,
        high_mark_bytes: int | None = None,
        remote_guest: bool = False,
    ) -> None:
        self.clock = clock
        self._remote_guest = remote_guest
        self.compat: Compat = compat
        self.skipped: tuple[Problem, ...] = ()
        self.server = Server(
            {},
            Users([]),
            self._may_open,
            login_from=login_from,
            high_mark_bytes=high_mark_bytes,
        )
        self.deaths: dict[str, Deaths] = {}
        self._begin()

    def _begin(self) -> None:
        """Be as a new RabbitMQ is."""
        self.server.users = Users.default(remote_guest=self._remote_guest)
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

    def load(self, document: Mapping[str, Any], *, alone: bool = False) -> None:
        """Declare what a definitions document holds: vhosts, users, permissions and topology.

        Args:
            alone: if it has users, there are no others, as in a RabbitMQ that starts with it.

        Raises:
            InvalidTopologyError: it cannot be used; nothing of it was declared in the vhost that
                the text names, or after it.
        """
        loaded = load_definitions(document, default_vhost=DEFAULT_VHOST, compat=self.compat)
        users = users_in(document, remote_guest=self._remote_guest)
        self.skipped = loaded.skipped
        if users:
            others = [] if alone else self.server.users.by_name.values()
            self.server.users = Users([*others, *users])
        for name in loaded.vhosts:
            command = commands.ImportDefinitions(definitions=dict(document))
            vhost = self.add_vhost(name)
            vhost.default_queue_type = loaded.default_queue_types.get(name, "classic")
            answer = self.do(vhost, command)
            if answer.refusal is not None:
                raise InvalidTopologyError([Problem(f"vhost '{name}'", answer.refusal.text)])

    def load_for_test(self, document: Mapping[str, Any]) -> None:
        """The same; guest keeps its password, and may open each vhost.

        Raises:
            InvalidTopologyError: see `load`.
        """
        self.load(document)
        users = self.server.users
        guest = users.by_name.get(LOOPBACK_USER)
        if guest is not None and not guest.has_password(LOOPBACK_USER.encode()):
            own = msgspec.structs.replace(
                guest,
                password_hash=new_password_hash(LOOPBACK_USER),
                hashing_algorithm=HASHING_ALGORITHM,
            )
            self.server.users = Users([*users.by_name.values(), own])
        for vhost in self.server.vhosts.values():
            if not vhost.shard.vhost.permissions.knows(LOOPBACK_USER):
                self.grant(vhost, LOOPBACK_USER)

    def _may_open(self, user: User, vhost_name: str) -> bool:
        return self.server.vhosts[vhost_name].shard.vhost.permissions.knows(user.name)

    def do(self, vhost: OpenVhost, command: commands.Command) -> AnswerOut:
        """Carry out a command of the operator; return the answer."""
        answers: list[AnswerOut] = []
        vhost.listen(_OPERATOR.channel, AnswerListener(answers.append))
        vhost.submit(Ask(_OPERATOR, command))
        vhost.forget(_OPERATOR.channel)
        return answers[-1]


_WITH_MD5: Final = re.compile(r"3\.[0-5]\.")
"""The versions of RabbitMQ that hashed with MD5, and whose exports do not say so."""


class _UserEntry(msgspec.Struct):
    """A user in a definitions document."""

    name: str
    password_hash: str | None = None
    password: str | None = None
    hashing_algorithm: str | None = None
    tags: str | list[str] = ""
    limits: UserLimits | None = None


def users_in(document: Mapping[str, Any], *, remote_guest: bool = False) -> list[User]:
    """The users of a definitions document, which `load_definitions` has checked.

    Raises:
        InvalidTopologyError: one cannot be used.
    """
    users, problems = [], []
    is_old = _WITH_MD5.match(str(document.get("rabbit_version")))
    algorithm = OLD_HASHING_ALGORITHM if is_old else HASHING_ALGORITHM
    for index, entry in enumerate(document.get("users") or ()):
        try:
            user = msgspec.convert(entry, _UserEntry)
            users.append(_user(user, algorithm, remote_guest=remote_guest))
        except msgspec.ValidationError as error:
            problems.append(Problem(f"users[{index}]", str(error)))
    if problems:
        raise InvalidTopologyError(problems)
    return users


def _user(entry: _UserEntry, default_algorithm: str, *, remote_guest: bool) -> User:
    password_hash, algorithm = entry.password_hash, entry.hashing_algorithm or default_algorithm
    if password_hash is None and entry.password:
        password_hash, algorithm = new_password_hash(entry.password), HASHING_ALGORITHM
    tags = entry.tags.split(",") if isinstance(entry.tags, str) else entry.tags
    return User(
        entry.name,
        password_hash,
        algorithm,
        tuple(filter(None, map(str.strip, tags))),
        loopback_only=entry.name == LOOPBACK_USER and not remote_guest,
        limits=entry.limits or UserLimits(),
    )
