"""Settling deliveries: ack, reject, nack, recover; requeueing; and the check of a transaction.

A settlement names deliveries by ref (`label/n`) or delivery id. If a delivery is settled already or
belongs to another user, it is reported as missing: that changes nothing and closes nothing. The
same holds if its queue was deleted; but `multiple` up to it settles the older ones (R-SET-3).

A transaction is checked before it is committed, because afterwards each step would be refused
alone. RabbitMQ checks each step when it is issued; here the steps are checked in their order, each
as if those before it had been taken, and none had taken effect yet.
"""

from collections.abc import Iterable, Iterator, Sequence

from streaming.broker.channels.channel import Channel, Consumer
from streaming.broker.channels.settlement_refs import DeliveryRefs, ResolvedRef
from streaming.broker.commands import Ack, Check, CheckedPublish, Recover, Reject, Settlement
from streaming.broker.events import Actor, Kind
from streaming.broker.handlers.access import Result
from streaming.broker.message import NEVER, Copy, Publication
from streaming.broker.queues.queue import Queue
from streaming.broker.reject_reasons import cause_of
from streaming.broker.shard_state import ShardState
from streaming.broker.state.schema import NO_QUEUE, Delivery
from topology.refusals import Refusal, not_implemented, unknown_delivery

Taken = tuple["Consumer", "Delivery"]
Part = tuple["Queue", list[Taken]]
"""Deliveries of one queue that are settled at once."""


def settle(shard: ShardState, actor: Actor, command: Settlement) -> Result:
    """Carry out a settlement, one ref after the other (R-SET-3)."""
    refs = DeliveryRefs(shard.channels, actor.user, command.channel)
    if isinstance(command, Ack) and not command.multiple:
        missing = _ack_each(shard, refs, command.refs)
        return {"missing": missing} if missing else {}
    multiple = not isinstance(command, Reject) and command.multiple
    acks = isinstance(command, Ack)
    requeued, cause = False, None
    if not isinstance(command, Ack):
        requeued, cause = command.requeue, cause_of(command.reason)
    missing = []
    resolved = [refs.resolve(ref) for ref in command.refs]  # before any of them causes a delivery
    for ref, where in zip(command.refs, resolved, strict=True):
        all_taken = taken = refs.take_up_to(where) if multiple else refs.take(where)
        if not taken or taken[-1][1].queue_number == NO_QUEUE:
            missing.append(ref)
            shard.context.events.add(Kind.SETTLE_MISSED, detail={"ref": ref})
        if multiple or missing:
            taken = without_tombstones(taken)
        if acks:
            ack(shard, taken)
        elif requeued:
            requeue(shard, taken, explicitly=True, cause=cause)
        else:
            reject(shard, taken, cause)
        finish_settling(shard, all_taken)
    return {"missing": missing} if missing else {}


def recover(shard: ShardState, actor: Actor, command: Recover) -> Result:
    """Requeue everything unacked on a channel."""
    if not command.requeue:
        return not_implemented("requeue=false")
    channel = shard.channels.get(actor.user, command.channel)
    if channel is None:
        return {"requeued": 0}
    return {"requeued": requeue_all(shard, channel, explicitly=True)}


def requeue_all(shard: ShardState, channel: Channel, *, explicitly: bool) -> int:
    """Requeue everything unacked on a channel (R-SET-4); return how many copies."""
    all_taken = channel.take_up_to(NEVER)
    taken = without_tombstones(all_taken)
    requeue(shard, taken, explicitly=explicitly)
    _count_tombstones(shard, all_taken)
    return len(taken)


def requeue(
    shard: ShardState, taken: list[Taken], *, explicitly: bool, cause: str | None = None
) -> None:
    """Put deliveries back, part by part; those of a lost channel queue by queue (R-SET-7)."""
    consumers = dict.fromkeys(consumer for consumer, _ in taken)
    freed = _count_settled(consumers)
    for queue, part in _parts(shard, taken) if explicitly else _lost_parts(shard, taken):
        copies: list[Copy] = []
        for consumer, delivery in part:
            queue.reclaim(consumer.channel.number, delivery.copy)
            delivery.copy.requeue_count += 1
            copies.append(delivery.copy)
        for consumer in dict.fromkeys(consumer for consumer, _ in part):
            if freed is None or consumer.deliveries.limiter is None:
                queue.line.rejoin(consumer)  # else those that wait longest come first
        queue.put_back(copies, explicitly=explicitly, cause=cause)
    for consumer in consumers:
        if consumer.active:
            shard.queues.in_use(consumer.queue_number).serve()
    if freed is not None:
        serve_held_back(shard, freed)


def _parts(shard: ShardState, taken: list[Taken]) -> list[Part]:
    """What queues settle one after the other: deliveries to one consumer, or to one get (R-SET-12).

    Queues are in order of name; in each, gets come before consumers, which are in order of label.
    """
    if not taken:
        return []
    first = taken[0][0]
    if len(taken) == 1 or (first.number and all(consumer is first for consumer, _ in taken)):
        return [(shard.queues.in_use(taken[0][1].queue_number), taken)]
    parts: dict[tuple[str, int, int, str], Part] = {}
    for consumer, delivery in taken:
        queue = shard.queues.in_use(delivery.queue_number)
        who = (1, 0, consumer.label) if consumer.number else (0, delivery.tag, "")
        _queue, part = parts.setdefault((queue.name, *who), (queue, []))
        part.append((consumer, delivery))
    return [part for _, part in sorted(parts.items())]


def _lost_parts(shard: ShardState, taken: list[Taken]) -> list[Part]:
    """What a lost channel had of each queue, as it returns (R-SET-7)."""
    parts: dict[str, Part] = {}
    for consumer, delivery in taken:
        queue = shard.queues.in_use(delivery.queue_number)
        parts.setdefault(queue.name, (queue, []))[1].append((consumer, delivery))
    by_age = shard.context.config.compat != "3.10"
    for queue, part in parts.values():
        if queue.quorum:
            _sort_by_consumer(part, by_age=by_age)
    return [part for _, part in sorted(parts.items())]


def _sort_by_consumer(taken: list[Taken], *, by_age: bool) -> None:
    """Put together what each consumer had, in order of label; every get is one of its own.

    The label of a get is the text of its tag.

    Args:
        by_age: the oldest consumer comes first, and gets come last.
    """
    oldest: dict[str, int] = {}
    for consumer, _ in taken:
        number = oldest.get(consumer.label, consumer.number)
        oldest[consumer.label] = min(number, consumer.number)

    def place(entry: Taken) -> tuple[int | float, str]:
        consumer, delivery = entry
        label = consumer.label if consumer.number else str(delivery.tag)
        age = oldest[label] if consumer.number else float("inf")
        return age if by_age else 0, label

    taken.sort(key=place)


def _ack_each(shard: ShardState, refs: DeliveryRefs, names: Sequence[str]) -> list[str]:
    """Ack deliveries one after the other; return the names of those that are not unacked."""
    missing: list[str] = []
    place = 0
    for (label, candidates, number), count in refs.runs(names):
        done = 0
        while done < count:
            ref = (label, candidates, number + done)
            acked = _ack_named_run(shard, refs, ref, count - done) if count > 1 else 0
            done += acked
            if acked:
                continue
            taken = refs.take(ref)
            if taken and taken[0][1].queue_number != NO_QUEUE:
                ack(shard, taken)
                deliver_deaths(shard)
            else:
                _count_tombstones(shard, taken)
                name = names[place + done]
                missing.append(name)
                shard.context.events.add(Kind.SETTLE_MISSED, detail={"ref": name})
            done += 1
        place += count
    return missing


def _ack_named_run(shard: ShardState, refs: DeliveryRefs, ref: ResolvedRef, count: int) -> int:
    likely = refs.likely(ref)
    if likely is None:
        return 0
    consumer, first, deliveries = likely
    start = first + ref[2]
    return ack_run(shard, consumer, start, min(start + count, first + deliveries))


def ack_run(shard: ShardState, consumer: Consumer, start: int, after: int) -> int:
    """Ack consecutive deliveries of one consumer up to a gap; return how many.

    They leave at once as long as none lets the consumer have another copy: the order of events is
    that of one ack after the other.
    """
    number = start
    if consumer.deliveries.limiter is not None:
        return 0
    own = shard.queues.in_use(consumer.queue_number) if consumer.active else None
    channel = consumer.channel.number
    while number < after:
        if own is not None and own.ready and not consumer.in_line:
            delivery = consumer.deliveries.take(number)
            if delivery is None:
                break
            own.ack(channel, delivery.copy)
            number += 1
        else:
            found = consumer.deliveries.take_run(number, after)
            if not found:
                break
            queue = shard.queues.in_use(found[0].queue_number)
            queue.ack_all(channel, [delivery.copy for delivery in found])
            number += len(found)
        if own is not None and not consumer.in_line:
            own.line.rejoin(consumer)
            own.serve()
            deliver_deaths(shard)
    return number - start


def ack(shard: ShardState, taken: list[Taken]) -> None:
    """Ack deliveries part by part (R-SET-12)."""
    for queue, part in _settled_parts(shard, taken):
        channel = part[0][0].channel.number
        if len(part) == 1:
            queue.ack(channel, part[0][1].copy)
        else:
            queue.ack_all(channel, [delivery.copy for _, delivery in part])


def reject(shard: ShardState, taken: list[Taken], cause: str | None) -> None:
    """Dead-letter or reroute copies, part by part (R-SET-1, R-SET-12)."""
    counts = shard.context.config.compat != "3.10"
    for queue, part in _settled_parts(shard, taken):
        settings = queue.settings
        reroutes = settings.alternate_exchange is not None and settings.dead_letter_exchange is None
        for consumer, delivery in part:
            copy = delivery.copy
            queue.reclaim(consumer.channel.number, copy)
            if queue.quorum and counts:
                copy.failures += 1
            if reroutes:
                shard.dead_lettering.reroute(queue, copy, "rejected", cause)
            else:
                queue.die(copy, "rejected", cause)


def _settled_parts(shard: ShardState, taken: list[Taken]) -> Iterator[Part]:
    """The parts of what is settled for good; their consumers are served when each is settled.

    The limiter of the channel, if there is one, counts all of them at once.
    """
    parts = _parts(shard, taken)
    if len(parts) > 1 and taken[0][0].channel.limiter is not None:
        yield from parts
        _give_room(shard, taken)
        return
    for queue, part in parts:
        yield queue, part
        _give_room(shard, part)


def _give_room(shard: ShardState, taken: list[Taken]) -> None:
    """Serve the consumers whose deliveries were settled, if that gave them room.

    If their channel's limiter held others back, those that wait longest come first (R-QOS-3).
    """
    if len(taken) == 1:
        consumer = taken[0][0]
        freed = None if consumer.deliveries.limiter is None else _count_settled([consumer])
        if freed is not None:
            serve_held_back(shard, freed)
        if consumer.active and not consumer.in_line:
            queue = shard.queues.in_use(consumer.queue_number)
            queue.line.rejoin(consumer)
            queue.serve()
        return
    consumers = dict.fromkeys(one for one, _ in taken)
    freed = _count_settled(consumers)
    if freed is not None:
        serve_held_back(shard, freed)
    waiting = [one for one in consumers if one.active and not one.in_line]
    waiting.sort(key=lambda one: one.left_line)
    queues = [shard.queues.in_use(one.queue_number) for one in waiting]
    for consumer, queue in zip(waiting, queues, strict=True):
        queue.line.rejoin(consumer)
    for queue in queues:
        queue.serve()


def _count_settled(consumers: Iterable[Consumer]) -> Channel | None:
    """Let the limiter of the consumers' channel count; return the channel if that gave it room."""
    limited = [consumer for consumer in consumers if consumer.deliveries.limiter is not None]
    for consumer in limited:
        consumer.channel.hold(consumer)
    limiter = limited[0].deliveries.limiter if limited else None
    is_freed = limiter is not None and limiter.count_settled()
    return limited[0].channel if is_freed else None


def serve_held_back(shard: ShardState, channel: Channel) -> None:
    """Serve the consumers that the channel's limiter held back, while it allows more (R-QOS-3).

    A consumer that stands by for a single active one stays out of its line.
    """
    stand_by: list[Consumer] = []
    while held_back := channel.next_held_back():
        queue = shard.queues.in_use(held_back[0].queue_number)
        for consumer in held_back:
            queue.line.rejoin(consumer)
        stand_by += [consumer for consumer in held_back if not consumer.in_line]
        queue.serve()
    for consumer in stand_by:
        channel.hold(consumer)


def serve_resumed(shard: ShardState, channel: Channel) -> None:
    """Serve the consumers of a channel that was stopped (R-QOS-7).

    A consumer that stands by for a single active one has room, and stays out of its line: each
    queue is served once.
    """
    served: set[int] = set()
    while held_back := [one for one in channel.all_held_back() if one.queue_number not in served]:
        queue = shard.queues.in_use(held_back[0].queue_number)
        served.add(queue.number)
        for consumer in held_back:
            if consumer.queue_number == queue.number:
                queue.line.rejoin(consumer)
        queue.serve()


def finish_settling(shard: ShardState, taken: list[Taken]) -> None:
    """Do what follows a settlement, of deliveries and tombstones."""
    _count_tombstones(shard, taken)
    deliver_deaths(shard)


def _count_tombstones(shard: ShardState, taken: list[Taken]) -> None:
    """Let the limiter count, which the settlement of nothing but tombstones has not done."""
    if taken:
        channel = taken[0][0].channel
        if channel.limiter is not None and channel.limiter.count_settled():
            serve_held_back(shard, channel)


def deliver_deaths(shard: ShardState) -> None:
    """Deliver the dead letters of what was settled, before anything else is."""
    outbox = shard.queues.outbox
    if outbox.deaths or outbox.quorum_deaths or outbox.held:
        shard.dead_lettering.deliver()


def without_tombstones(taken: Iterable[Taken]) -> list[Taken]:
    """Only deliveries whose queue still exists."""
    return [entry for entry in taken if entry[1].queue_number != NO_QUEUE]


# -- checking


def check(shard: ShardState, actor: Actor, command: Check) -> Result:
    """Answer with nothing, or with the first refusal there would be."""
    transaction = _TransactionCheck()
    for step in command.steps:
        if isinstance(step, CheckedPublish):
            refusal = _refuse_publish(shard, actor, step)
        else:
            refusal = transaction.refuse(shard, actor, step)
        if refusal is not None:
            return refusal
    return {}


def _refuse_publish(shard: ShardState, actor: Actor, step: CheckedPublish) -> Refusal | None:
    publication = Publication(
        step.exchange, step.routing_key, step.expiration, None, step.headers, step.user_id
    )
    return shard.publishing.refuse(publication, actor.user)


class _TransactionCheck:
    """The deliveries that the steps so far would settle."""

    def __init__(self) -> None:
        self._tags: set[tuple[int, int]] = set()  # channel, tag
        self._up_to: dict[int, int] = {}  # channel -> tag

    def refuse(self, shard: ShardState, actor: Actor, step: Settlement) -> Refusal | None:
        """406 if the step names a delivery that would not be unacked any more."""
        refs = DeliveryRefs(shard.channels, actor.user, step.channel)
        multiple = not isinstance(step, Reject) and step.multiple
        for ref in step.refs:
            for consumer, delivery in refs.meant(refs.resolve(ref)):
                if not self._has(consumer, delivery):
                    break
            else:
                return unknown_delivery(ref)
            if delivery.queue_number == NO_QUEUE:
                return unknown_delivery(ref)
            number = consumer.channel.number
            if multiple:
                self._up_to[number] = delivery.tag
            else:
                self._tags.add((number, delivery.tag))
        return None

    def _has(self, consumer: Consumer, delivery: Delivery) -> bool:
        number, tag = consumer.channel.number, delivery.tag
        return tag <= self._up_to.get(number, 0) or (number, tag) in self._tags
