"""What a client or an operator declares in a vhost, as values, in RabbitMQ's words.

The vhost's name is not part of them. A declaration need not be valid: see `validation`.
"""

from typing import Literal, TypeAlias

import msgspec

from topology.sentences import say
from topology.values import Table, table_key

DestinationType = Literal["queue", "exchange"]
RESERVED_PREFIX = "amq."
"""Names that begin with this are reserved for the broker."""

MAX_NAME_BYTES = 255
"""Size limit of a name or key in UTF-8: AMQP writes its length into one byte."""

BindingEnd: TypeAlias = tuple[DestinationType, str]
"""A queue or an exchange, by name."""

BindingKey: TypeAlias = tuple[str, str, str, str, tuple[object, ...]]
"""What identifies a binding: source, destination type, destination, key, arguments."""


class Exchange(msgspec.Struct, frozen=True):
    """An exchange; `arguments` may name an `alternate-exchange` (R-AE-5)."""

    name: str
    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = {}


class Queue(msgspec.Struct, frozen=True):
    """A queue; `arguments` have their `x-` prefix (R-DEF-4)."""

    name: str
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    arguments: Table = {}

    @property
    def queue_type(self) -> str:
        """The value of `x-queue-type`, valid or not; `classic` by default."""
        queue_type = self.arguments.get("x-queue-type")
        return queue_type if isinstance(queue_type, str) else "classic"

    def of_default_type(self, queue_type: str) -> "Queue":
        """With the type of queues of its vhost that name none, as its argument.

        Only durable queues that others may use, and that stay, have it; the rest are classic.
        """
        stays = self.durable and not self.exclusive and not self.auto_delete
        if not stays or queue_type == "classic" or "x-queue-type" in self.arguments:
            return self
        arguments = {"x-queue-type": queue_type, **self.arguments}
        return msgspec.structs.replace(self, arguments=arguments)


class Binding(msgspec.Struct, frozen=True):
    """A binding from an exchange to a queue or exchange; `routing_key` is the binding key."""

    source: str
    destination: str
    destination_type: DestinationType = "queue"
    routing_key: str = ""
    arguments: Table = {}

    @property
    def key(self) -> BindingKey:
        """The sortable identity of the binding: equal bindings have equal keys (R-ROUTE-12)."""
        return (
            self.source,
            self.destination_type,
            self.destination,
            self.routing_key,
            table_key(self.arguments) if self.arguments else (),
        )


class Policy(msgspec.Struct, frozen=True):
    """A policy or an operator policy; keys of `definition` have no `x-` prefix (R-POL-1)."""

    name: str
    pattern: str
    definition: Table
    priority: int = 0
    apply_to: str = "all"


class Permission(msgspec.Struct, frozen=True):
    """What one user may do in the vhost: three patterns; an empty one grants nothing."""

    user: str
    configure: str
    write: str
    read: str


class TopicPermission(msgspec.Struct, frozen=True):
    """Which routing keys one user may write to, and read from, at a topic exchange."""

    user: str
    exchange: str
    write: str
    read: str

    @property
    def name(self) -> str:
        """What only one of the vhost has."""
        return f"{self.user} at {self.exchange}"


class VhostLimits(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """The limits of a vhost; None, or below 0: no limit."""

    max_connections: int | None = None
    max_queues: int | None = None

    @property
    def name(self) -> str:
        """The name of the parameter that RabbitMQ exports them as."""
        return "limits"


Declaration = Exchange | Queue | Binding | Policy | Permission | TopicPermission | VhostLimits
"""Whatever a definitions document declares in a vhost."""


class Definitions(msgspec.Struct, frozen=True):
    """Everything declared in one vhost."""

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()
    policies: tuple[Policy, ...] = ()
    operator_policies: tuple[Policy, ...] = ()
    permissions: tuple[Permission, ...] = ()
    topic_permissions: tuple[TopicPermission, ...] = ()
    limits: tuple[VhostLimits, ...] = ()  # at most one


PREDECLARED: tuple[Exchange, ...] = (
    Exchange("", "direct"),
    Exchange("amq.direct", "direct"),
    Exchange("amq.fanout", "fanout"),
    Exchange("amq.headers", "headers"),
    Exchange("amq.match", "headers"),
    Exchange("amq.topic", "topic"),
)
"""The exchanges that every vhost has (R-DEF-2)."""

PREDECLARED_NAMES = frozenset(exchange.name for exchange in PREDECLARED)


def too_long(name: str) -> str | None:
    """Say why a name or key is too long for AMQP; None if it is not."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if size <= MAX_NAME_BYTES:
        return None
    return say("has %(size)s bytes, more than %(most)s", size=str(size), most=MAX_NAME_BYTES)
