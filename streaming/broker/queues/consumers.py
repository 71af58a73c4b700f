"""Handing out: to consumers as room allows, and to gets.

Consumers of a queue wait in line; one that was served goes to the end of the line while it has
room, and joins it again when it gets room (R-QUEUE-2). A consumer waits only while its prefetch
has room, so a queue with ready copies and a waiting consumer is a contradiction outside this
file.
"""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING, Final

from streaming.broker.events import CONSUMED, DELIVERED
from streaming.broker.message import NEVER
from streaming.broker.outbound import DeliveryOut
from streaming.broker.state.schema import Delivery
from streaming.broker.timers import TimerKind

if TYPE_CHECKING:
    from streaming.broker.channels.channel import Channel
    from streaming.broker.channels.streams import Stream
    from streaming.broker.message import Copy
    from streaming.broker.queues.queue import Queue
    from streaming.broker.shard import Shard


_make_delivery: Final = Delivery
_make_delivery_out: Final = DeliveryOut
"""As constants of this module: compiled code need not look them up by name for each message."""


class Consumers:
    """The handing out of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._events = shard.events
        self._timeout_ms = shard.config.consumer_timeout_ms
        self._streams: dict[tuple[int, int], Stream] = {}

    def can_take(self, queue: Queue) -> bool:
        """Whether a copy that arrives now would be handed over at once."""
        return bool(queue.waiting) and not queue.ready

    def hand_over(self, queue: Queue, copy: Copy) -> None:
        """Give a copy to the consumer that is next in line."""
        waiting = queue.waiting
        key = waiting[0]
        stream = self._streams.get(key)
        if stream is None:
            channel_number, stream_number = key
            stream = self._shard.channels.by_number(channel_number).streams[stream_number]
            self._streams[key] = stream
        self.deliver(queue, copy, stream, stream.label, stream.next_number, stream.auto_ack)
        if stream.unacked < stream.room:
            waiting.rotate(-1)
        else:
            waiting.popleft()

    def serve(self, queue: Queue) -> None:
        """Hand out ready copies while consumers wait."""
        while queue.ready and queue.waiting:
            self.hand_over(queue, queue.take())
            if queue.mortal:
                queue.after_take()

    def join_line(self, stream: Stream) -> Queue | None:
        """Let a consumer that has room wait, without serving it yet; its queue if it waits."""
        if not stream.active or not stream.has_room:
            return None
        queue = self._shard.queues.in_use(stream.queue_number)
        if stream.key not in queue.waiting:
            queue.waiting.append(stream.key)
        return queue

    def gained_room(self, stream: Stream) -> None:
        """A delivery of a consumer was settled: let it join the line, and be served."""
        if stream.active:
            queue = self.join_line(stream)
            if queue is not None and queue.ready:
                self.serve(queue)

    def serve_stream(self, stream: Stream) -> None:
        """Serve the queue of a consumer."""
        if stream.active:
            self.serve(self._shard.queues.in_use(stream.queue_number))

    def deliver(
        self,
        queue: Queue,
        copy: Copy,
        stream: Stream,
        label: str,
        label_number: int,
        auto_ack: bool,  # noqa: FBT001 - by position: this is called for nearly every message
    ) -> None:
        """Make a delivery: event, outbound record, and an unacked entry unless it is acked."""
        shard = self._shard
        channel = stream.channel
        actor = channel.actor
        events = self._events
        kinds = events.kinds
        row = len(kinds)
        if shard.actor is not actor:
            events.receivers[row] = actor
        name = queue.name
        returns = copy.returns
        kinds.append(CONSUMED if auto_ack else DELIVERED)
        events.queues.append(name)
        events.copies.append(copy)
        events.numbers.append(returns)
        number = stream.next_number
        stream.next_number = number + 1
        tag = channel.next_tag
        channel.next_tag = tag + 1
        stream_id = ""
        if not auto_ack:
            stream_id = stream.id
            stream.add(_make_delivery(tag, number, queue.number, shard.now_ms, copy))
            queue.unacked += 1
            queue.unacked_bytes += copy.message.size
            channel_number = channel.number
            queue.unacked_on[channel_number] = queue.unacked_on.get(channel_number, 0) + 1
            if channel.timeout_timer_ms == NEVER and self._timeout_ms is not None:
                self._arm_timeout(channel, self._timeout_ms)
        shard.outbound.append(
            _make_delivery_out(
                row,
                actor,
                label,
                label_number,
                stream_id,
                number,
                name,
                copy,
                returns,
                copy.failures,
                queue.quorum,
                stream.number == 0,
            )
        )

    def get(self, queue: Queue, channel: Channel, count: int, label: str, *, auto_ack: bool) -> int:
        """Up to `count` single gets, each with what it causes (R-QUEUE-6); returns how many."""
        shard = self._shard
        stream = channel.gets
        first = stream.next_number
        done = 0
        while done < count:
            if queue.mortal:
                queue.before_get()
            if not queue.ready:
                break
            self.deliver(queue, queue.take(), stream, label, done, auto_ack)
            done += 1
            if queue.mortal:
                queue.after_take()
            if shard.dead_lettering.outbox or shard.at_least_once.dying:
                shard.cascade()
        if label and done and not auto_ack:
            channel.get_labels[label] = (first, done)
        return done

    def _arm_timeout(self, channel: Channel, timeout_ms: int) -> None:
        """Let a timer watch the channel's oldest unacked delivery."""
        shard = self._shard
        due_ms = channel.timeout_timer_ms = shard.now_ms + timeout_ms
        heappush(shard.timers, (due_ms, TimerKind.CONSUMER_TIMEOUT, channel.number))
