"""Settling deliveries: ack, reject, nack, recover; and requeueing when a channel is lost.

A settlement names deliveries by ref (`label/n`) or delivery id. What is not unacked (any more),
or is somebody else's, is reported as missing: it changes nothing and closes nothing. So is what
went with its queue; but `multiple` up to it settles what is older (R-SET-3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.broker.channels.delivery_refs import Refs
from streaming.broker.commands import Ack, Reject, Settlement
from streaming.broker.events import Kind
from streaming.broker.message import NEVER
from streaming.broker.state.schema import NO_QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.broker.channels.channel import Channel
    from streaming.broker.channels.streams import Stream
    from streaming.broker.events import Actor
    from streaming.broker.message import Copy
    from streaming.broker.shard import Shard
    from streaming.broker.state.schema import Delivery

Taken = tuple["Stream", "Delivery"]


class Settlements:
    """The settling of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def settle(self, actor: Actor, command: Settlement) -> dict[str, object]:
        """Carry a settlement out, one ref after the other (R-SET-3)."""
        shard = self._shard
        refs = Refs(shard.channels, actor.user, command.channel)
        multiple = not isinstance(command, Reject) and command.multiple
        ack = isinstance(command, Ack)
        requeue = not isinstance(command, Ack) and command.requeue
        missing: list[str] = []
        named = [refs.find(ref) for ref in command.refs]  # before any of them causes a delivery
        for ref, place in zip(command.refs, named, strict=True):
            taken = refs.take_up_to(place) if multiple else refs.take(place)
            if not taken or taken[-1][1].queue_number == NO_QUEUE:
                missing.append(ref)
                shard.events.add(Kind.SETTLE_MISSED, detail={"ref": ref})
            if multiple or missing:
                taken = _unacked(taken)
            if ack:
                self._ack(taken)
            elif requeue:
                self.requeue(taken, explicitly=True)
            else:
                self._reject(taken)
            if shard.dead_lettering.outbox or shard.at_least_once.dying:
                shard.cascade()
        return {"missing": missing} if missing else {}

    def requeue_all(self, channel: Channel, *, explicitly: bool) -> int:
        """R-SET-4: requeue everything unacked on a channel; returns how many copies."""
        taken = _unacked(channel.take_up_to(NEVER))
        self.requeue(taken, explicitly=explicitly)
        return len(taken)

    def requeue(self, taken: Iterable[Taken], *, explicitly: bool) -> None:
        """Put deliveries back, queue by queue in order of name, in delivery order within each."""
        by_queue: dict[int, list[Copy]] = {}
        streams: dict[tuple[int, int], Stream] = {}
        for stream, delivery in taken:
            streams[stream.key] = stream
            by_queue.setdefault(delivery.queue_number, []).append(delivery.copy)
        shard = self._shard
        channel_number = next(iter(streams))[0] if streams else -1
        queues = [shard.queues.in_use(number) for number in by_queue]
        for stream in streams.values():
            shard.consumers.join_line(stream)
        for queue in sorted(queues, key=lambda queue: queue.name):
            copies = by_queue[queue.number]
            for copy in copies:
                queue.reclaim(channel_number, copy)
                copy.returns += 1
            queue.put_back(copies, explicitly=explicitly)
        for stream in streams.values():
            shard.consumers.serve_stream(stream)

    def _ack(self, taken: list[Taken]) -> None:
        shard = self._shard
        for stream, delivery in taken:
            queue = shard.queues.in_use(delivery.queue_number)
            queue.reclaim(stream.channel.number, delivery.copy)
            shard.events.add(Kind.ACKED, queue.name, delivery.copy)
        self._room(taken)

    def _reject(self, taken: list[Taken]) -> None:
        """R-SET-1; several are dead-lettered queue by queue, in delivery order (R-SET-3)."""
        shard = self._shard
        if len(taken) > 1:
            taken = sorted(taken, key=lambda entry: shard.queues.in_use(entry[1].queue_number).name)
        for stream, delivery in taken:
            queue = shard.queues.in_use(delivery.queue_number)
            queue.reclaim(stream.channel.number, delivery.copy)
            if queue.quorum and shard.config.compat != "3.10":
                delivery.copy.failures += 1
            settings = queue.settings
            if settings.alternate_exchange is not None and settings.dead_letter_exchange is None:
                shard.rerouting.reroute(queue, delivery.copy, "rejected")
            else:
                shard.dead_lettering.die(queue, delivery.copy, "rejected")
        self._room(taken)

    def _room(self, taken: list[Taken]) -> None:
        if len(taken) == 1:
            stream = taken[0][0]
            if stream.unacked + 1 >= stream.room:  # else it is in line, and nothing is ready
                self._shard.consumers.gained_room(stream)
            return
        for stream in {stream.key: stream for stream, _delivery in taken}.values():
            self._shard.consumers.gained_room(stream)


def _unacked(taken: Iterable[Taken]) -> list[Taken]:
    """Without the marks of what went with its queue."""
    return [entry for entry in taken if entry[1].queue_number != NO_QUEUE]
