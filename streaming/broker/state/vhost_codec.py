"""The stored form of a vhost, a worker's cache of decoded vhosts, and warnings about a vhost.

Decoding a vhost takes milliseconds, so a worker keeps decoded ones by content hash. A vhost is
taken out of the cache while it is in use: a failed batch leaves nothing half-changed behind.
"""

import hashlib
from typing import Any

import msgspec

from streaming.broker.events import Events, Kind
from streaming.broker.state.encoding import decode_table, encode_table, pack, unpack
from streaming.broker.state.kept_shards import KeptShards
from topology.declarations import (
    Binding,
    Definitions,
    DestinationType,
    Exchange,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    VhostLimits,
)
from topology.values import Compat
from topology.vhost import Vhost

CACHED_VHOSTS = 32

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
    topic_permissions: list[tuple[str, str, str, str]] = []
    limits: tuple[int | None, int | None] = (None, None)  # connections, queues
    parameters: list[tuple[tuple[str, str], tuple[str, str | None]]] = []


_decoder = msgspec.msgpack.Decoder(_Record)


def encode_vhost(vhost: Vhost) -> bytes:
    """Encode what is declared in a vhost; equal declarations give equal bytes."""
    declared = vhost.definitions()
    record = _Record(
        vhost.next_queue_number,
        vhost.version,
        [
            (x.name, x.type, x.durable, x.auto_delete, x.internal, _raw(x.arguments))
            for x in declared.exchanges
        ],
        [
            (
                vhost.queue_numbers[q.name],
                q.name,
                q.durable,
                q.auto_delete,
                q.exclusive,
                _raw(q.arguments),
            )
            for q in declared.queues
        ],
        [
            (b.source, b.destination, b.destination_type, b.routing_key, _raw(b.arguments))
            for b in declared.bindings
        ],
        [_policy_record(policy) for policy in declared.policies],
        [_policy_record(policy) for policy in declared.operator_policies],
        [(p.user, p.configure, p.write, p.read) for p in declared.permissions],
        [(p.user, p.exchange, p.write, p.read) for p in declared.topic_permissions],
        (vhost.limits.max_connections, vhost.limits.max_queues),
        sorted(vhost.parameters.items()),
    )
    return pack(_encoder.encode(record))


def decode_vhost(data: bytes, compat: Compat) -> Vhost:
    """Rebuild the vhost that `encode_vhost` encoded."""
    record = _decoder.decode(unpack(data))
    definitions = Definitions(
        exchanges=tuple(Exchange(*x[:5], _table(x[5])) for x in record.exchanges),
        queues=tuple(Queue(*q[1:5], _table(q[5])) for q in record.queues),
        bindings=tuple(Binding(*b[:4], _table(b[4])) for b in record.bindings),
        policies=tuple(map(_policy, record.policies)),
        operator_policies=tuple(map(_policy, record.operator_policies)),
        permissions=tuple(Permission(*permission) for permission in record.permissions),
        topic_permissions=tuple(TopicPermission(*each) for each in record.topic_permissions),
    )
    queue_numbers = {q[1]: q[0] for q in record.queues}
    vhost = Vhost.from_definitions(definitions, compat, queue_numbers)
    vhost.limits = VhostLimits(*record.limits)
    vhost.parameters = dict(record.parameters)
    vhost.next_queue_number = record.next_queue
    vhost.version = record.version
    return vhost


def _raw(table: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(encode_table(table))


def _table(raw: msgspec.Raw) -> dict[str, Any]:
    return decode_table(raw) or {}


def _policy_record(policy: Policy) -> tuple[str, str, msgspec.Raw, int, str]:
    definition = _raw(policy.definition)
    return (policy.name, policy.pattern, definition, policy.priority, policy.apply_to)


def _policy(record: tuple[str, str, msgspec.Raw, int, str]) -> Policy:
    name, pattern, definition, priority, apply_to = record
    return Policy(name, pattern, _table(definition), priority, apply_to)


class VhostCache:
    """The decoded vhosts of a worker, by content hash.

    Attributes:
        shards: queues and plans of shards with these vhosts.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, bytes], Vhost] = {}
        self.shards = KeptShards()

    def take(self, compat: str, digest: bytes) -> Vhost | None:
        """Remove and return a vhost; None if it is not cached."""
        return self._entries.pop((compat, digest), None)

    def put(self, compat: str, digest: bytes, vhost: Vhost) -> None:
        """Add a vhost; drops the oldest entry if there are more than `CACHED_VHOSTS`."""
        self._entries[(compat, digest)] = vhost
        if len(self._entries) > CACHED_VHOSTS:
            del self._entries[next(iter(self._entries))]


def digest_of(data: bytes) -> bytes:
    """The content hash of an encoded vhost."""
    return hashlib.sha256(data).digest()


MissingAlternate = tuple[str, str]
"""The name of an exchange, and of its alternate exchange, which does not exist."""

_QUEUE = "\0queue\0"
"""Precedes the names of queues among those of exchanges."""


class AlternateWarnings:
    """Warnings about missing alternate exchanges: one per pair and version of the vhost.

    Args:
        given: name, missing alternate exchange, version of the vhost at the warning.
    """

    def __init__(self, events: Events, vhost: Vhost, given: list[tuple[str, str, int]]) -> None:
        self._events = events
        self._vhost = vhost
        self._version = vhost.version
        self._given = {(name, alternate) for name, alternate, version in given}

    def warn(self, missing: tuple[MissingAlternate, ...]) -> None:
        """Warn about exchanges, unless that was done for this version of the vhost."""
        for exchange, alternate in missing:
            self._warn("exchange", exchange, exchange, alternate)

    def warn_about_queue(self, queue: str, alternate: str) -> None:
        """Warn about a queue whose own alternate exchange does not exist."""
        self._warn("queue", queue, _QUEUE + queue, alternate)

    def _warn(self, kind: str, name: str, key: str, alternate: str) -> None:
        if self._version != self._vhost.version:
            self._version = self._vhost.version
            self._given.clear()
        if (key, alternate) not in self._given:
            self._given.add((key, alternate))
            detail = {kind: name, "missing_alternate_exchange": alternate}
            self._events.add(Kind.WARNING, name if kind == "queue" else "", detail=detail)

    def record(self) -> list[tuple[str, str, int]]:
        """The warnings that are still current, as `given`."""
        if self._version != self._vhost.version:
            return []
        return [(*pair, self._version) for pair in sorted(self._given)]
