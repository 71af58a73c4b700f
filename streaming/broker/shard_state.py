"""Opens a shard from its stored state, and saves it when the batch ends."""

import msgspec

from streaming.broker.channels.registry import CHANNEL_GROUPS, ChannelRegistry, open_channels
from streaming.broker.clock import Clock, Timer, TimerKind
from streaming.broker.config import ShardConfig
from streaming.broker.context import ShardContext
from streaming.broker.dead_letters.dead_lettering import DeadLettering
from streaming.broker.events import Events
from streaming.broker.message import NEVER, PublishedPort
from streaming.broker.publishing import Publishing
from streaming.broker.queues.registry import QUEUE_GROUPS, QueueRegistry
from streaming.broker.queues.unfinished import GROUP, UnfinishedWork
from streaming.broker.redrives import open_redrives
from streaming.broker.redrives.open_redrives import OpenRedrives
from streaming.broker.state.encoding import pack, unpack, version_of
from streaming.broker.state.record_groups import SMALL_GROUPS_UNTIL, regroup
from streaming.broker.state.resting import Kept
from streaming.broker.state.schema import HeaderRecord
from streaming.broker.state.store import StateStore
from streaming.broker.state.vhost_codec import (
    AlternateWarnings,
    VhostCache,
    decode_vhost,
    digest_of,
    encode_vhost,
)
from topology.vhost import Vhost

HEADER_KEY, VHOST_KEY = "header", "topology"

REBUILT = -1
"""The key in the header's timers of channels by which a rebuilt state says so.

Its channels are known, but not the numbers of their deliveries: the next batch closes them first.
"""

_encoder = msgspec.msgpack.Encoder()
_header_decoder = msgspec.msgpack.Decoder(HeaderRecord)


class MissingStateError(Exception):
    """A part of the stored state is missing."""


class ShardState:
    """Everything that a shard consists of during one batch.

    Args:
        store: where the state rests.
        batch_ms: with `clock = wall` the batch's instant; with `event` ignored.
        cache: decoded vhosts of this worker.
        published: reads the headers of messages.

    Attributes:
        is_rebuilt: whether the state was rebuilt from the tables since the last batch.
        lost_a_batch: whether the batch after this state was dropped, although clients may have
            its records.

    Raises:
        MissingStateError: the vhost is missing from the state.
    """

    def __init__(
        self,
        config: ShardConfig,
        store: StateStore,
        batch_ms: int,
        cache: VhostCache,
        published: PublishedPort,
    ) -> None:
        data = store.read(HEADER_KEY)
        header = (
            HeaderRecord(0, 1, b"", {}, {}, 1, 0, 0, [])
            if data is None
            else _header_decoder.decode(unpack(data))
        )
        events = Events(header.next_seq)
        self.is_rebuilt = header.channel_timers.pop(REBUILT, None) is not None
        self._cache = cache
        self._digest = header.topology_digest
        vhost = self._open_vhost(config, store)
        if data is not None and version_of(data) <= SMALL_GROUPS_UNTIL:
            _regroup(header, vhost, store)
        clock = Clock(config, events, _timers(header), now_ms=header.now_ms, batch_ms=batch_ms)
        self._saved_version = vhost.version
        warnings = AlternateWarnings(events, vhost, header.warned)
        self.lost_a_batch = header.next_outbound < config.outbound_from
        self.first_outbound = max(header.next_outbound, config.outbound_from)
        self.context = context = ShardContext(
            config, store, events, clock, vhost, warnings, published
        )
        self.channels = ChannelRegistry(context, header.channel_timers)
        kept = cache.resting.take(config, self._digest)
        self.queues = QueueRegistry(
            context,
            self.channels,
            header.queue_timers,
            header.resident_messages,
            header.resident_bytes,
            kept.queues,
        )
        self.unfinished = UnfinishedWork(context, self.queues)
        self.dead_lettering = DeadLettering(context, self.queues)
        self.publishing = Publishing(context, self.queues, kept.plans)
        self.redrives = OpenRedrives(context, self.queues, self.channels)

    def _open_vhost(self, config: ShardConfig, store: StateStore) -> Vhost:
        vhost = self._cache.take(config.compat, self._digest)
        if vhost is None:
            data = store.read(VHOST_KEY)
            if data is not None:
                vhost = decode_vhost(data, config.compat)
            elif self._digest:
                raise MissingStateError(
                    f"the declarations of vhost '{config.vhost}' (lane {config.lane}) are missing "
                    f"from the state, entry {VHOST_KEY!r}: restore the checkpoint from a backup"
                )
            else:
                vhost = Vhost(config.compat)
        vhost.enforce_permissions = config.enforce_permissions
        vhost.administrators = config.administrators
        vhost.default_delivery_limit = config.default_delivery_limit
        return vhost

    def resident(self) -> tuple[int, int]:
        """The copies whose end has no event yet, and the bytes of their bodies."""
        in_queues, bytes_in_queues = self.queues.resident()
        detached, bytes_detached = self.unfinished.resident()
        return in_queues + detached, bytes_in_queues + bytes_detached

    def save(self) -> None:
        """Write everything that changed. Do not use the shard afterwards."""
        context = self.context
        messages, size = self.queues.resident()
        self.channels.save()
        kept = Kept()
        kept.queues = self.queues.save()
        kept.plans = self.publishing.save()
        self.unfinished.save()
        self.redrives.save()
        if context.vhost.version != self._saved_version:
            data = encode_vhost(context.vhost)
            self._digest = digest_of(data)
            context.store.write(VHOST_KEY, data)
            kept.queues = {}  # their settings may be of the vhost before
        header = HeaderRecord(
            context.clock.now_ms,
            context.events.next_seq,
            self._digest,
            self.queues.records.timers,
            self.channels.records.timers,
            self.first_outbound + len(context.outbound),
            messages,
            size,
            context.alternate_warnings.record(),
        )
        context.store.write(HEADER_KEY, pack(_encoder.encode(header)))
        self._cache.put(context.config.compat, self._digest, context.vhost)
        self._cache.resting.put(context.config, self._digest, kept)


def _regroup(header: HeaderRecord, vhost: Vhost, store: StateStore) -> None:
    """Bring the groups of a state that an earlier version wrote to today's size."""
    queues = vhost.queue_numbers.values()
    header.queue_timers = regroup(store, QUEUE_GROUPS, queues, header.queue_timers)
    channels = [number for _user, _name, number in open_channels(store).names]
    header.channel_timers = regroup(store, CHANNEL_GROUPS, channels, header.channel_timers)


def _timers(header: HeaderRecord) -> list[Timer]:
    """One timer for each group at rest that has any, and one for unfinished work."""
    timers: list[Timer] = []
    for group, due_ms in header.queue_timers.items():
        if group == GROUP:
            timers.append((due_ms, TimerKind.CONTINUE, 0))
        elif group == open_redrives.GROUP:
            if due_ms != NEVER:
                timers.append((due_ms, TimerKind.REDRIVE, 0))
        else:
            timers.append((due_ms, TimerKind.WAKE_QUEUES, group))
    for group, due_ms in header.channel_timers.items():
        timers.append((due_ms, TimerKind.WAKE_CHANNELS, group))
    return timers
