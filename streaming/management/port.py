"""What the API needs of a front, in memory or on Kafka."""

from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from streaming.amqp.login import User
from streaming.amqp.server import Server
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.commands import Command
from streaming.broker.events import Actor
from streaming.broker.outbound import AnswerOut
from streaming.management.sessions import Session


class VhostInfo(msgspec.Struct, frozen=True):
    """What people say of a vhost, and the type of queues that name none.

    Attributes:
        tracing: whether somebody put it on; nothing is traced.
    """

    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = "classic"
    tracing: bool = False


class VhostChanges(Protocol):
    """Makes the vhosts of a broker whose vhosts are logs, and deletes them."""

    def is_elsewhere(self, name: str) -> bool:
        """Whether another front serves a vhost now."""

    def is_configured(self, name: str) -> bool:
        """Whether a file names the vhost."""

    def is_going(self, name: str) -> bool:
        """Whether a vhost is being deleted here, or was."""

    def expect_makeable(self, name: str) -> None:
        """Refuse a vhost that is not there and cannot be made.

        Raises:
            DlxError: its name cannot be used, or this front makes none.
        """

    async def make(self, name: str) -> bool:
        """Make a vhost, and wait until it is served here; whether it is new.

        Raises:
            DlxError: it cannot be made.
            OSError: not now; it may be made nevertheless.
        """

    async def delete(self, name: str, by: Actor) -> None:
        """Delete a vhost that is served here, with everything in it.

        Raises:
            DlxError: a file sets it.
            OSError: not now; it may be deleted nevertheless.
        """


class Front(Protocol):
    """A broker as the API sees it. `by` is whoever asks for a change, for the audit.

    Attributes:
        server: its vhosts, users and connections.
        started_ms: epoch milliseconds.
    """

    server: Server
    started_ms: int

    @property
    def now_ms(self) -> Callable[[], int]:
        """The clock of the broker, epoch milliseconds."""

    @property
    def not_serving(self) -> Callable[[], str]:
        """Why no request can be answered here; empty if they can."""

    def expect_changeable(self, users: list[User], vhosts: list[str]) -> None:
        """Refuse these users as they shall be, and these vhosts, if they cannot be put.

        Raises:
            ApiError: 400, one of them cannot.
        """

    async def do(self, vhost: OpenVhost, actor: Actor, command: Command) -> AnswerOut:
        """Carry out a command; return the answer."""

    async def open_session(self, vhost: OpenVhost, user: str) -> Session:
        """Open a channel for a request of a user."""

    def implied_in(self, vhost: OpenVhost) -> Collection[str]:
        """Users who may do everything in a vhost while it records no permissions of theirs."""

    def info(self, vhost_name: str) -> VhostInfo:
        """What is known of a vhost."""

    async def put_vhost(self, name: str, info: VhostInfo, by: Actor) -> bool:
        """Make a vhost, or change what is said of it; whether it is new."""

    async def delete_vhost(self, name: str, by: Actor) -> None:
        """Delete a vhost with everything in it; its connections end."""

    async def put_user(self, user: User, by: Actor) -> bool:
        """Add a user or replace it; whether it is new."""

    async def delete_user(self, name: str, by: Actor) -> None:
        """Delete a user with its permissions; its connections end."""

    async def close_connection(self, name: str, reason: str) -> None:
        """End a connection, and tell its client why."""

    async def put_global_parameter(self, name: str, value: Any, by: Actor) -> bool:
        """Set a global parameter; whether it is new."""

    async def delete_global_parameter(self, name: str, by: Actor) -> bool:
        """Remove a global parameter; whether there was one."""

    def global_parameters(self) -> dict[str, Any]:
        """Them all, by name."""
