"""Commands of channels: get, consume, settle, open, close and more; leases and timeouts."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import TYPE_CHECKING, Any

from streaming.broker import commands
from streaming.broker.events import Actor, Kind
from streaming.broker.message import NEVER
from streaming.broker.timers import TimerKind
from topology.refusals import Refusal

if TYPE_CHECKING:
    from streaming.broker.channels.channel import Channel
    from streaming.broker.channels.streams import Stream
    from streaming.broker.queues.queue import Queue
    from streaming.broker.shard import Shard

Result = dict[str, Any] | Refusal
Handler = Callable[[Actor, Any], Result]

TAG_IN_USE = 530
NOT_IMPLEMENTED = 540


class Sessions:
    """The channels' commands of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def handlers(self) -> dict[type, Handler]:
        """Which method carries out which command."""
        return {
            commands.Get: self._get,
            commands.Consume: self._consume,
            commands.Cancel: self._cancel,
            commands.Ack: self._settle,
            commands.Reject: self._settle,
            commands.Nack: self._settle,
            commands.Recover: self._recover,
            commands.OpenChannel: self._open,
            commands.Renew: self._renew,
            commands.CloseChannel: self._close,
        }

    # -- deliveries

    def _get(self, actor: Actor, command: commands.Get) -> Result:
        queue = self._readable(actor, command.queue)
        if isinstance(queue, Refusal):
            return queue
        channel = self._channel(actor, command.lease_ms)
        queue.touch()
        delivered = self._shard.consumers.get(
            queue, channel, command.count, command.label or "", auto_ack=command.auto_ack
        )
        return {"delivered": delivered}

    def _consume(self, actor: Actor, command: commands.Consume) -> Result:
        queue = self._readable(actor, command.queue)
        if isinstance(queue, Refusal):
            return queue
        channel = self._channel(actor, command.lease_ms)
        label = command.label
        known = channel.labels.get(label)
        if known is not None and channel.streams[known].active:
            return Refusal(TAG_IN_USE, f"NOT_ALLOWED - attempt to reuse consumer tag '{label}'")
        stream = channel.new_consumer(
            label, queue.number, command.prefetch, auto_ack=command.auto_ack
        )
        queue.add_consumer(stream)
        self._note(
            "consumer_started", queue.name, {"consumer": label, "prefetch": command.prefetch}
        )
        self._shard.consumers.serve(queue)
        return {"consumer": label}

    def _cancel(self, actor: Actor, command: commands.Cancel) -> Result:
        shard = self._shard
        stream = shard.channels.find_consumer(actor.user, command.channel, command.label)
        if stream is not None:
            self._stop(stream)
        return {}

    def _settle(self, actor: Actor, command: commands.Settlement) -> Result:
        return self._shard.settlements.settle(actor, command)

    def _recover(self, actor: Actor, command: commands.Recover) -> Result:
        channel = self._shard.channels.get(actor.user, command.channel)
        if channel is None:
            return {"requeued": 0}
        return {"requeued": self._shard.settlements.requeue_all(channel, explicitly=True)}

    # -- opening and closing

    def _open(self, actor: Actor, command: commands.OpenChannel) -> Result:
        channel = self._shard.channels.open(actor.user, command.channel)
        channel.lease_ms = command.lease_ms
        self._shard.channels.used(channel)
        self._note("channel_opened", "", {"lease_ms": command.lease_ms})
        return {"number": channel.number}

    def _renew(self, actor: Actor, command: commands.Renew) -> Result:
        channel = self._shard.channels.get(actor.user, command.channel)
        if channel is None:
            return {"open": False, "lease_ms": None, "number": None}
        return {"open": True, "lease_ms": channel.lease_ms, "number": channel.number}

    def _close(self, actor: Actor, command: commands.CloseChannel) -> Result:
        channel = self._shard.channels.get(actor.user, command.channel)
        if channel is not None:
            self.close(channel, "close_channel")
        return {}

    def renew_lease(self, actor: Actor) -> None:
        """Any command of a channel renews its lease."""
        channel = self._shard.channels.get(actor.user, actor.channel)
        if channel is not None:
            self._shard.channels.used(channel)

    def close_after_error(self, actor: Actor) -> None:
        """R-ROUTE-10 and others: a channel error closes the channel it happened on."""
        channel = self._shard.channels.get(actor.user, actor.channel)
        if channel is not None:
            self.close(channel, "channel_error")

    def close(self, channel: Channel, cause: str) -> None:
        """Consumers end, exclusive queues go, unacked deliveries are requeued (R-SET-4)."""
        shard = self._shard
        self._note(
            "channel_closed", "", {"name": channel.name, "user": channel.user, "cause": cause}
        )
        for stream in channel.consumers():
            self._stop(stream)
        for name in sorted(shard.topology.exclusive_queues):
            if shard.queues.named(name).owner == channel.number:
                shard.administration.queues.delete_queue(shard.queues.named(name), "exclusive")
        shard.settlements.requeue_all(channel, explicitly=False)
        shard.channels.remove(channel)

    def _stop(self, stream: Stream) -> None:
        """End a consumer; an auto-delete queue goes with its last one (R-GONE-3)."""
        shard = self._shard
        stream.active = False
        queue = shard.queues.in_use(stream.queue_number)
        queue.remove_consumer(stream)
        self.note_cancelled(queue, stream)
        if queue.declaration.auto_delete and not queue.consumers:
            shard.administration.queues.delete_queue(queue, "auto_delete")

    def note_cancelled(self, queue: Queue, stream: Stream) -> int:
        """Say that a consumer ended, and whose it was; the row of the event."""
        channel = stream.channel
        detail = {"consumer": stream.label, "name": channel.name, "user": channel.user}
        return self._note("consumer_cancelled", queue.name, detail)

    # -- time

    def timer_due(self, kind: int, number: int, due_ms: int) -> None:
        """A lease or a consumer timeout may have run out."""
        shard = self._shard
        if not shard.channels.exists(number):
            return
        channel = shard.channels.by_number(number)
        if kind == TimerKind.LEASE and channel.lease_timer_ms == due_ms:
            channel.lease_timer_ms = NEVER
            if channel.lease_ms is not None:
                ends_ms = shard.moved_on(channel.used_at_ms + channel.lease_ms)
                if ends_ms <= shard.now_ms:
                    self.close(channel, "lease_expired")
                else:
                    channel.lease_timer_ms = ends_ms
                    heappush(shard.timers, (ends_ms, TimerKind.LEASE, number))
        elif kind == TimerKind.CONSUMER_TIMEOUT and channel.timeout_timer_ms == due_ms:
            channel.timeout_timer_ms = NEVER
            timeout_ms = shard.config.consumer_timeout_ms
            oldest_ms = channel.oldest_ms()
            if oldest_ms != NEVER and timeout_ms is not None:
                ends_ms = shard.moved_on(oldest_ms + timeout_ms)
                if ends_ms <= shard.now_ms:
                    self.close(channel, "consumer_timeout")
                else:
                    channel.timeout_timer_ms = ends_ms
                    heappush(shard.timers, (ends_ms, TimerKind.CONSUMER_TIMEOUT, number))

    # -- common

    def _channel(self, actor: Actor, lease_ms: int | None) -> Channel:
        channel = self._shard.channels.get(actor.user, actor.channel)
        if channel is None:
            channel = self._shard.channels.open(actor.user, actor.channel)
            channel.lease_ms = lease_ms
        channel.actor = actor
        self._shard.channels.used(channel)
        return channel

    def _readable(self, actor: Actor, name: str) -> Queue | Refusal:
        """The queue, if this channel may read from it."""
        shard = self._shard
        if shard.config.lanes > 1:
            lanes = shard.config.lanes
            text = f"vhost '{shard.config.vhost}' has {lanes} lanes: no get or consume there"
            return Refusal(NOT_IMPLEMENTED, f"NOT_IMPLEMENTED - {text}")
        return shard.administration.queues.usable_queue(actor, name, "read")

    def _note(self, what: str, queue: str, detail: dict[str, Any]) -> int:
        return self._shard.events.add(Kind.CHANNEL, queue, detail={"what": what, **detail})
