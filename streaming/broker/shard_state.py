"""Opens a shard from its stored state, and saves it when the batch ends."""

import msgspec

from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.clock import Clock, Timer, TimerKind
from streaming.broker.config import ShardConfig
from streaming.broker.context import ShardContext
from streaming.broker.dead_letters.dead_lettering import DeadLettering
from streaming.broker.events import Events
from streaming.broker.message import NEVER, PublishedPort
from streaming.broker.publishing import Publishing
from streaming.broker.queues.registry import QueueRegistry
from streaming.broker.queues.unfinished import UnfinishedWork
from streaming.broker.redrives.open_redrives import OpenRedrives
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.kept_shards import Kept
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
        header = HeaderRecord() if data is None else _header_decoder.decode(unpack(data))
        events = Events(header.next_seq)
        self.is_rebuilt = header.is_rebuilt
        self._cache = cache
        self._digest = header.topology_digest
        vhost = self._open_vhost(config, store)
        clock = Clock(config, events, _timers(header), now_ms=header.now_ms, batch_ms=batch_ms)
        self._saved_version = vhost.version
        warnings = AlternateWarnings(events, vhost, header.warned)
        self.lost_a_batch = header.next_outbound < config.outbound_from
        self.first_outbound = max(header.next_outbound, config.outbound_from)
        self.context = context = ShardContext(
            config, store, events, clock, vhost, warnings, published
        )
        self.channels = ChannelRegistry(context, header.channel_timers)
        kept = cache.shards.take(config, self._digest)
        self.queues = QueueRegistry(
            context,
            self.channels,
            header.queue_timers,
            header.resident_messages,
            header.resident_bytes,
            kept.queues,
        )
        self.unfinished = UnfinishedWork(context, self.queues, header.continue_ms)
        self.dead_lettering = DeadLettering(context, self.queues)
        self.publishing = Publishing(context, self.queues, kept.plans)
        redrive_ms = header.redrive_ms if header.has_redrives else None
        self.redrives = OpenRedrives(context, self.queues, self.channels, redrive_ms)

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

    def drop_stale(self) -> None:
        """Drop what a shard that stays open would otherwise keep of the past."""
        self.context.clock.drop_stale(self._is_live)
        self.queues.records.drop_empty()
        self.channels.records.drop_empty()

    def _is_live(self, timer: Timer) -> bool:
        """Whether a timer may still do something."""
        due_ms, kind, number = timer
        match kind:
            case TimerKind.SWEEP_CLASSIC | TimerKind.SWEEP_QUORUM:
                queue = self.queues.by_number(number)
                return queue is not None and queue.timer_ms == due_ms
            case TimerKind.EXPIRE_QUEUE:
                queue = self.queues.by_number(number)
                return queue is not None and queue.expiry_timer_ms == due_ms
            case TimerKind.RETRY_HELD:
                queue = self.queues.by_number(number)
                return queue is not None and queue.held.retry_timer_ms == due_ms
            case TimerKind.LEASE | TimerKind.CONSUMER_TIMEOUT:
                return self.channels.is_loaded(number) and due_ms in (
                    self.channels.by_number(number).lease_timer_ms,
                    self.channels.by_number(number).timeout_timer_ms,
                )
            case _:
                return True

    def save(self, *, is_rebuilt: bool = False) -> None:
        """Write everything that changed. Do not use the shard afterwards.

        Args:
            is_rebuilt: whether the next batch has to treat the state as rebuilt.
        """
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
            self.unfinished.due_ms,
            self.redrives.are_open,
            self.redrives.due_ms,
            is_rebuilt,
        )
        context.store.write(HEADER_KEY, pack(_encoder.encode(header)))
        self._cache.put(context.config.compat, self._digest, context.vhost)
        self._cache.shards.put(context.config, self._digest, kept)


def _timers(header: HeaderRecord) -> list[Timer]:
    """One timer for each group at rest that has any, for unfinished work and for redrives."""
    timers: list[Timer] = [
        (due_ms, TimerKind.WAKE_QUEUES, group) for group, due_ms in header.queue_timers.items()
    ]
    for group, due_ms in header.channel_timers.items():
        timers.append((due_ms, TimerKind.WAKE_CHANNELS, group))
    for due_ms, kind in (
        (header.continue_ms, TimerKind.CONTINUE),
        (header.redrive_ms, TimerKind.REDRIVE),
    ):
        if due_ms != NEVER:
            timers.append((due_ms, kind, 0))
    return timers
