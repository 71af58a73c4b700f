"""What is declared in a vhost, as one value that rests between batches.

Reading and compiling it costs milliseconds, so a worker keeps compiled ones by content hash and
takes one out while it works on it: a batch that fails leaves nothing half-changed behind.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from streaming.broker.state.encoding import decode_table, encode_table, pack, unpack
from topology.declarations import (
    Binding,
    DestinationType,
    Exchange,
    Permission,
    Policy,
    Queue,
)
from topology.errors import access_refused
from topology.permissions import PermissionTable
from topology.policies import PolicyTable, QueueSettings
from topology.routing.router import Router

if TYPE_CHECKING:
    from topology.errors import Refusal
    from topology.permissions import Need
    from topology.values import Compat

CACHED_TOPOLOGIES = 32

_encoder = msgspec.msgpack.Encoder()


class _Record(msgspec.Struct, array_like=True):
    next_queue: int
    version: int
    exchanges: list[tuple[str, str, bool, bool, bool, msgspec.Raw]]
    queues: list[tuple[int, str, bool, bool, bool, msgspec.Raw]]
    bindings: list[tuple[str, str, DestinationType, str, msgspec.Raw]]
    policies: list[tuple[str, str, msgspec.Raw, int, str]]
    operator_policies: list[tuple[str, str, msgspec.Raw, int, str]]
    permissions: list[tuple[str, str, str, str]]


_decoder = msgspec.msgpack.Decoder(_Record)


def _raw(table: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(encode_table(table))


def _table(raw: msgspec.Raw) -> dict[str, Any]:
    return decode_table(raw) or {}


class Declared:
    """The exchanges, queues, bindings, policies and permissions of one shard's vhost.

    Attributes:
        queues: by name: the number it is known by in the state, and its declaration.
        exclusive: names of those that go with their channel.
        version: grows with every change.
    """

    def __init__(self, compat: Compat) -> None:
        self.compat = compat
        self.router = Router(compat)
        self.policies = PolicyTable()
        self.permissions = PermissionTable()
        self.queues: dict[str, tuple[int, Queue]] = {}
        self.names: dict[int, str] = {}
        self.exclusive: set[str] = set()
        self.administrators: tuple[str, ...] = ()
        self.default_delivery_limit: int | None = None
        self.next_queue = 1
        self.version = 0
        self._settings: dict[str, tuple[Queue, int, int | None, QueueSettings]] = {}

    def add_queue(self, queue: Queue) -> int:
        """Declare a queue; returns its number, never used before."""
        number = self.next_queue
        self.next_queue += 1
        self._know(number, queue)
        return number

    def _know(self, number: int, queue: Queue) -> None:
        self.queues[queue.name] = (number, queue)
        self.names[number] = queue.name
        if queue.exclusive:
            self.exclusive.add(queue.name)
        self.router.declare_queue(queue.name)

    def remove_queue(self, name: str) -> list[Binding]:
        """Forget a queue and its bindings."""
        number, _queue = self.queues.pop(name)
        del self.names[number]
        self.exclusive.discard(name)
        self._settings.pop(name, None)
        return self.router.delete_queue(name)

    def settings(self, queue: Queue) -> QueueSettings:
        """What is in force for a queue.

        Worked out once, as long as the declaration and the policies stay: with thousands of active
        queues it would be a third of what a batch does.
        """
        changes, limit = self.policies.changes, self.default_delivery_limit
        known = self._settings.get(queue.name)
        if known is not None and known[0] is queue and known[1] == changes and known[2] == limit:
            return known[3]
        settings = self.policies.queue_settings(queue, self.compat, limit)
        self._settings[queue.name] = (queue, changes, limit, settings)
        return settings

    def renew_alternates(self) -> None:
        """Work the alternate exchanges out anew, after a policy changed (R-AE-5)."""
        for exchange in list(self.router.exchanges.values()):
            if exchange.name:
                self.router.set_alternate(exchange.name, self.policies.exchange_alternate(exchange))

    def refuse(self, user: str | None, needs: list[Need], vhost: str) -> Refusal | None:
        """403 if permissions count here and the user lacks one.

        An administrator with no permissions on record lacks none.
        """
        if not self.permissions.enforced:
            return None
        if user in self.administrators and not self.permissions.knows(user):
            return None
        return self.permissions.refuse(user, needs, vhost)

    def refuse_administration(self, user: str | None, vhost: str) -> Refusal | None:
        """403 if the user may not set policies and permissions here."""
        if not self.permissions.enforced or user is None or user in self.administrators:
            return None
        return access_refused(
            f"user '{user}' is no administrator and may not change policies or permissions in "
            f"vhost '{vhost}'"
        )

    def encode(self) -> bytes:
        """As bytes; equal topologies give equal bytes."""
        router = self.router
        return pack(
            _encoder.encode(
                _Record(
                    self.next_queue,
                    self.version,
                    [
                        (x.name, x.type, x.durable, x.auto_delete, x.internal, _raw(x.arguments))
                        for _name, x in sorted(router.exchanges.items())
                    ],
                    [
                        (number, q.name, q.durable, q.auto_delete, q.exclusive, _raw(q.arguments))
                        for _name, (number, q) in sorted(self.queues.items())
                    ],
                    [
                        (
                            b.source,
                            b.destination,
                            b.destination_type,
                            b.routing_key,
                            _raw(b.arguments),
                        )
                        for b in router.bindings()
                    ],
                    [_policy(policy) for policy in self.policies.policies()],
                    [_policy(policy) for policy in self.policies.policies(operator=True)],
                    [
                        (p.user, p.configure, p.write, p.read)
                        for p in self.permissions.permissions()
                    ],
                )
            )
        )

    @classmethod
    def decode(cls, data: bytes, compat: Compat) -> Declared:
        """The inverse of `encode`."""
        record = _decoder.decode(unpack(data))
        declared = cls(compat)
        for policy in record.policies:
            declared.policies.set(_policy_of(policy))
        for policy in record.operator_policies:
            declared.policies.set(_policy_of(policy), operator=True)
        for permission in record.permissions:
            declared.permissions.set(Permission(*permission))
        router = declared.router
        for name, kind, durable, auto_delete, internal, arguments in record.exchanges:
            exchange = Exchange(name, kind, durable, auto_delete, internal, _table(arguments))
            if name not in router.exchanges:
                router.declare_exchange(exchange, declared.policies.exchange_alternate(exchange))
        declared.renew_alternates()
        for number, name, durable, auto_delete, exclusive, arguments in record.queues:
            queue = Queue(name, durable, auto_delete, exclusive, _table(arguments))
            declared._know(number, queue)
        for source, destination, kind, routing_key, arguments in record.bindings:
            router.bind(Binding(source, destination, kind, routing_key, _table(arguments)))
        declared.next_queue = record.next_queue
        declared.version = record.version
        return declared


def _policy(policy: Policy) -> tuple[str, str, msgspec.Raw, int, str]:
    definition = _raw(policy.definition)
    return (policy.name, policy.pattern, definition, policy.priority, policy.apply_to)


def _policy_of(record: tuple[str, str, msgspec.Raw, int, str]) -> Policy:
    name, pattern, definition, priority, apply_to = record
    return Policy(name, pattern, _table(definition), priority, apply_to)


class TopologyCache:
    """Compiled topologies of a worker, by content hash."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, bytes], Declared] = {}

    def take(self, compat: str, digest: bytes) -> Declared | None:
        """Take one out, to work on it."""
        return self._entries.pop((compat, digest), None)

    def put(self, compat: str, digest: bytes, declared: Declared) -> None:
        """Put one in; the oldest goes when there are too many."""
        self._entries[(compat, digest)] = declared
        if len(self._entries) > CACHED_TOPOLOGIES:
            del self._entries[next(iter(self._entries))]


def digest_of(data: bytes) -> bytes:
    """The content hash of an encoded topology."""
    return hashlib.sha256(data).digest()
