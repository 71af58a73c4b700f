"""A broker whose vhosts are logs as the API sees it: every change is a command in a log.

So a change lasts, is among the changes that the tables show, and is known to a front that takes
over. An answer comes when Kafka has the command. What a file sets is changed in that file.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from streaming.amqp.login import User, Users
from streaming.amqp.server import Server
from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.broker.commands import MAX_PARAMETER, Command, ImportDefinitions
from streaming.broker.events import Actor
from streaming.broker.outbound import AnswerOut
from streaming.management.errors import (
    ApiError,
    bad_request,
    deleted_meanwhile,
    elsewhere,
    missing,
)
from streaming.management.kept import (
    GLOBAL,
    USER,
    VHOST,
    Kept,
    Key,
    Version,
    Versions,
    of_info,
    of_user,
    to_info,
    to_user,
)
from streaming.management.port import VhostChanges, VhostInfo
from streaming.management.server_front import ServerFront
from streaming.protocol.command_codec import encode_command
from streaming.protocol.definitions_portions import portions
from streaming.protocol.log_records import UnknownRecordError, read_command
from topology.errors import DlxError

CLUSTER_NAME: Final = "cluster_name"
"""The global parameter of which clients are told when they connect."""

MAX_KEPT: Final = 10_000
"""Users, global parameters and descriptions that were ever made."""

logger = logging.getLogger(__name__)


class LogFront(ServerFront):
    """The front of a server whose vhosts are logs; see `Front`. Make it before they are opened.

    Args:
        fixed: users whom a file sets, by name.
        vhosts: makes and deletes them.
        why_not: why nothing is served here; empty if something is.
    """

    def __init__(
        self,
        server: Server,
        now_ms: Callable[[], int],
        fixed: Collection[str],
        vhosts: VhostChanges,
        why_not: Callable[[], str],
    ) -> None:
        super().__init__(server, now_ms)
        self.not_serving = why_not
        server.users = Users(list(server.users.by_name.values()))
        self._fixed = frozenset(fixed)
        self._vhosts = vhosts
        self._versions = Versions()
        self._parameters: dict[str, Any] = {"internal_cluster_id": "dlx-stream"}
        server.opened.append(self._opened)

    def _opened(self, vhost: OpenVhost) -> None:
        """Learn what the log of a vhost has kept."""
        for key, version in self._versions.learn(vhost.shard.vhost.parameters).items():
            self._know(key, version)

    def _know(self, key: Key, version: Version) -> None:
        component, name = key
        try:
            if component == USER and name not in self._fixed:
                self._know_user(name, version)
            elif component == VHOST:
                info = self._infos[name] = to_info(version)
                if name in self.server.vhosts:
                    self.server.vhosts[name].default_queue_type = info.default_queue_type
            elif component == GLOBAL and version.kept.is_deleted:
                self._parameters.pop(name, None)
            elif component == GLOBAL:
                self._parameters[name] = version.kept.value
                if name == CLUSTER_NAME:
                    self.server.server_properties[name] = str(version.kept.value)
        except msgspec.ValidationError as error:
            logger.warning("the %s %s of a log cannot be used: %s", component, name, error)

    def _know_user(self, name: str, version: Version) -> None:
        if version.kept.is_deleted:
            self.forget_user(name)
        else:
            self.server.users.by_name[name] = to_user(name, version)

    async def _keep(
        self,
        by: Actor,
        key: Key,
        value: Any,
        secret: str | None = None,
        *,
        is_deleted: bool = False,
        vhosts: list[OpenVhost] | None = None,
    ) -> None:
        """Write a version of an object, and know it when it is in the log."""
        if key not in self._versions and len(self._versions) >= MAX_KEPT:
            raise bad_request(f"there are {MAX_KEPT} users and parameters, which is the limit")
        at_ms = self._versions.next_ms(key, self.now_ms())
        version = Version(Kept(at_ms, value, is_deleted), secret)
        command = _command(key, version)
        if len(command.value) > MAX_PARAMETER:
            raise bad_request(f"{key[1]}: it is longer than {MAX_PARAMETER} characters")
        await self.do_in(vhosts or list(self.server.vhosts.values()), by, command)
        if self._versions.take(key, version):
            self._know(key, version)

    async def _keep_all_in(self, vhost: OpenVhost, by: Actor) -> None:
        """Write what each log has into that of a vhost which was made, or made again, since."""
        there = vhost.shard.vhost.parameters
        new = [
            command
            for key, version in self._versions.shared().items()
            if there.get(key) != ((command := _command(key, version)).value, command.secret)
        ]
        await asyncio.gather(*(self.do(vhost, by, command) for command in new))

    # -- commands

    async def do(self, vhost: OpenVhost, actor: Actor, command: Command) -> AnswerOut:
        """See `Front`."""
        try:
            return await self._do(vhost, actor, command)
        except ApiError as error:
            if self._vhosts.is_going(vhost.name) and vhost.name not in self.server.vhosts:
                raise missing() from error
            raise

    async def _do(self, vhost: OpenVhost, actor: Actor, command: Command) -> AnswerOut:
        """Carry out a command; a log takes those of users on open channels only."""
        if isinstance(command, ImportDefinitions):
            return await self._import(vhost, actor, command)
        self._expect_readable(vhost, command)
        if actor.user is None:
            return await super().do(vhost, actor, command)
        session = await self.open_session(vhost, actor.user)
        try:
            return await session.do(lambda _channel: command)
        finally:
            await session.close()

    def _expect_readable(self, vhost: OpenVhost, command: Command) -> None:
        """Refuse what could not be read from the log again: the job would part from the front."""
        try:
            data = encode_command(command)
            read_command(data)
        except (UnicodeEncodeError, UnknownRecordError) as error:
            raise bad_request(f"it cannot be written to the log: {error}") from None
        size = len(data)
        if size > vhost.max_body_bytes:
            raise bad_request(
                f"{size} bytes are more than a record of the log may have: {vhost.max_body_bytes} "
                "(flow.max_body_bytes)"
            )

    async def _import(
        self, vhost: OpenVhost, actor: Actor, command: ImportDefinitions
    ) -> AnswerOut:
        """Import definitions in as many records as they need."""
        most = vhost.max_body_bytes // 2
        parts = await asyncio.to_thread(portions, command.definitions, most)
        for part in parts:
            await asyncio.to_thread(self._expect_readable, vhost, part)
        answers = []
        for part in parts:
            answers.append(await super().do(vhost, actor, part))
            if answers[-1].refusal is not None:
                break
        return answers[-1]

    # -- what files set

    def implied_in(self, vhost: OpenVhost) -> Collection[str]:
        """See `Front`; whoever makes a vhost gets permissions there, as with RabbitMQ."""
        return super().implied_in(vhost) if self._vhosts.is_configured(vhost.name) else ()

    def expect_changeable(self, users: list[User], vhosts: list[str]) -> None:
        """See `Front`."""
        known = self.server.users.by_name
        for user in users:
            if user.name in self._fixed and known.get(user.name) != user:
                raise _set_in_a_file(user.name)
        for name in vhosts:
            if name in self.server.vhosts:
                continue
            if self._vhosts.is_elsewhere(name):
                raise elsewhere(name)
            with _explained():
                self._vhosts.expect_makeable(name)

    # -- objects

    async def put_vhost(self, name: str, info: VhostInfo, by: Actor) -> bool:
        """See `Front`."""
        self.expect_changeable([], [name])
        is_new = name not in self.server.vhosts
        if is_new:
            with _explained():
                is_new = await self._vhosts.make(name)
        vhost = self.server.vhosts.get(name)
        if vhost is None:
            raise deleted_meanwhile(name)
        if is_new:
            await self._keep_all_in(vhost, by)
        if info != self.info(name):
            await self._keep(by, (VHOST, name), of_info(info), vhosts=[vhost])
        return is_new

    async def delete_vhost(self, name: str, by: Actor) -> None:
        """See `Front`."""
        with _explained():
            await self._vhosts.delete(name, by)

    async def put_user(self, user: User, by: Actor) -> bool:
        """See `Front`."""
        self.expect_changeable([user], [])
        before = self.server.users.by_name.get(user.name)
        if before != user:
            await self._keep(by, (USER, user.name), *of_user(user))
        return before is None

    async def delete_user(self, name: str, by: Actor) -> None:
        """See `Front`."""
        if name in self._fixed:
            raise _set_in_a_file(name)
        await self.clear_user(name, by)
        await self._keep(by, (USER, name), None, is_deleted=True)

    async def put_global_parameter(self, name: str, value: Any, by: Actor) -> bool:
        """See `Front`."""
        new = name not in self._parameters
        if new or self._parameters[name] != value:
            await self._keep(by, (GLOBAL, name), value)
        return new

    async def delete_global_parameter(self, name: str, by: Actor) -> bool:
        """See `Front`."""
        if name not in self._parameters:
            return False
        await self._keep(by, (GLOBAL, name), None, is_deleted=True)
        return True

    def global_parameters(self) -> dict[str, Any]:
        """See `Front`."""
        return self._parameters


def _command(key: Key, version: Version) -> commands.SetParameter:
    """What keeps a version in a log."""
    component, name = key
    text = msgspec.json.encode(version.kept).decode()
    return commands.SetParameter(component=component, name=name, value=text, secret=version.secret)


@contextmanager
def _explained() -> Iterator[None]:
    """Say why a vhost was not made or deleted."""
    try:
        yield
    except DlxError as error:
        raise bad_request(str(error)) from error
    except OSError as error:
        raise ApiError(503, "not_known", str(error)) from error


def _set_in_a_file(name: str) -> Exception:
    return bad_request(f"user '{name}' is set in dlx.toml or by --definitions: change it there")
