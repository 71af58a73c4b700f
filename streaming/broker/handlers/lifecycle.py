"""How channels, consumers, queues and exchanges begin and end, by command or by time."""

from collections.abc import Iterable

from streaming.broker.channels.channel import Channel, Consumer
from streaming.broker.channels.owners import Connection
from streaming.broker.clock import TimerKind
from streaming.broker.events import Actor, Kind
from streaming.broker.handlers.access import record_change, record_channel, record_declaration
from streaming.broker.handlers.settlement import requeue_all
from streaming.broker.message import NEVER, Copy
from streaming.broker.outbound import OUTBOUND_STEP, CancelOut
from streaming.broker.queues import consumer_timeout
from streaming.broker.queues.queue import Queue
from streaming.broker.shard_state import ShardState
from streaming.broker.state.schema import NO_QUEUE, DetachedRecord, LevelRecord
from topology.declarations import Binding
from topology.declarations import Queue as Declaration
from topology.policies import QueueSettings
from topology.refusals import Refusal

_NO_SETTINGS = QueueSettings(queue_type="classic")

# -- channels


def use_channel(shard: ShardState, actor: Actor, lease_ms: int | None) -> Channel:
    """The actor's channel; opened with this lease if it was not open."""
    channel = shard.channels.get(actor.user, actor.channel)
    if channel is None:
        channel = shard.channels.open(actor.user, actor.channel)
        channel.lease_ms = lease_ms
    channel.actor = actor
    shard.channels.used(channel)
    return channel


def renew_lease(shard: ShardState, actor: Actor) -> None:
    """Renew the lease of the actor's channel, as every command does."""
    channel = shard.channels.get(actor.user, actor.channel)
    if channel is not None:
        shard.channels.used(channel)


def close_after_error(shard: ShardState, actor: Actor, refusal: Refusal) -> None:
    """Close the channel on which an error happened (R-ROUTE-10 and others).

    An error of the connection closes that, if the channel belongs to one.
    """
    channel = shard.channels.get(actor.user, actor.channel)
    if channel is None:
        shard.channels.forget_publisher(actor.user, actor.channel)
    elif channel.connection >= 0 and refusal.is_of_connection:
        connection = shard.channels.owners.by_number(channel.connection)
        close_connection(shard, connection, "connection_error")
    else:
        close_channel(shard, channel, "channel_error")


def close_channel(
    shard: ShardState, channel: Channel, cause: str, *, by_client: bool = False
) -> None:
    """Cancel its consumers, delete its exclusive queues, requeue its deliveries (R-SET-4).

    Args:
        by_client: its client closes it alone: no error, and not with its connection (R-CONS-5).
    """
    detail = {"name": channel.name, "user": channel.user, "cause": cause}
    record_channel(shard, "channel_closed", "", detail)
    handed_over = _cancel_consumers(shard, channel)
    if by_client:
        _serve(shard, handed_over, early=True)
    if channel.connection < 0:
        _delete_exclusive_queues(shard, channel.number)
    requeue_all(shard, channel, explicitly=False)
    shard.channels.remove(channel)
    _serve(shard, handed_over)


def close_connection(shard: ShardState, connection: Connection, cause: str) -> None:
    """Close its channels, then delete its exclusive queues (R-CONN-1)."""
    detail = {"name": connection.name, "user": connection.user, "cause": cause}
    record_channel(shard, "connection_closed", "", detail)
    _close_channels(shard, connection.channels, cause)
    _delete_exclusive_queues(shard, connection.number)


def recover(shard: ShardState) -> None:
    """Close what a rebuilt state cannot continue: every channel, and every open redrive."""
    close_all(shard, "checkpoint_rebuilt")
    shard.redrives.cancel_all("the checkpoint was rebuilt, which does not know the sealed letters")


def forget_lost_batch(shard: ShardState) -> None:
    """Close every channel, because its client may hold deliveries of a batch that was dropped.

    Later channels get numbers that were never given, so no settlement reaches another delivery.
    """
    close_all(shard, "batch_dropped")
    shard.channels.skip_numbers(OUTBOUND_STEP)


def close_all(shard: ShardState, cause: str) -> None:
    """Close every channel and connection."""
    _close_channels(shard, shard.channels.numbers(), cause)
    for connection in shard.channels.owners.connections():
        close_connection(shard, connection, cause)
    shard.channels.publishers.forget_all()


def _close_channels(shard: ShardState, numbers: list[int], cause: str) -> None:
    """Close several channels.

    All consumers go first, so that none gets what the loss of another channel requeues.
    """
    channels = [shard.channels.by_number(number) for number in numbers]
    handed_over: list[int] = []
    for channel in channels:
        handed_over += _cancel_consumers(shard, channel)
    for channel in channels:
        close_channel(shard, channel, cause)
    _serve(shard, handed_over)


def own_queue(shard: ShardState, actor: Actor, queue: Queue, lease_ms: int | None) -> None:
    """Give an exclusive queue to the connection of the actor's channel, else to the channel.

    If that opens the channel, an event says so: the queue is deleted when its lease expires.
    """
    is_open = shard.channels.get(actor.user, actor.channel) is not None
    channel = use_channel(shard, actor, lease_ms)
    queue.owner = channel.owner
    shard.channels.owners.give(queue.owner, queue.number)
    if not is_open:
        record_channel(shard, "channel_opened", "", {"lease_ms": lease_ms})


def _delete_exclusive_queues(shard: ShardState, owner: int) -> None:
    """Delete the exclusive queues of a connection or channel that is being closed, by name."""
    if not shard.context.vhost.exclusive_queues:
        return
    queues = map(shard.queues.in_use, shard.channels.owners.queues_of(owner))
    for queue in sorted(queues, key=lambda queue: queue.name):
        delete_queue(shard, queue, "exclusive")


def channel_timer_due(shard: ShardState, kind: int, number: int, due_ms: int) -> None:
    """Close a channel if its lease or its consumer timeout has run out."""
    if not shard.channels.exists(number):
        return
    channel = shard.channels.by_number(number)
    if kind == TimerKind.LEASE and channel.lease_timer_ms == due_ms:
        channel.lease_timer_ms = NEVER
        if channel.lease_ms is not None:
            ends_ms = shard.context.clock.postponed(channel.used_at_ms + channel.lease_ms)
            if ends_ms <= shard.context.clock.now_ms:
                close_channel(shard, channel, "lease_expired")
            else:
                channel.lease_timer_ms = ends_ms
                shard.context.clock.arm(ends_ms, TimerKind.LEASE, number)
    elif kind == TimerKind.CONSUMER_TIMEOUT and channel.timeout_timer_ms == due_ms:
        channel.timeout_timer_ms = NEVER
        first_ms, waited_ms = _first_timeout(shard, channel)
        ends_ms = shard.context.clock.postponed(first_ms)
        if ends_ms <= shard.context.clock.now_ms:
            shard.context.timed_out.append((channel.name, waited_ms))
            close_channel(shard, channel, "consumer_timeout")
        else:
            _time_out_at(shard, channel, ends_ms)


def timeout_changed(shard: ShardState, channels: Iterable[int]) -> None:
    """Let another consumer timeout count for the deliveries on these channels."""
    for number in channels:
        channel = shard.channels.by_number(number)
        first_ms, _ = _first_timeout(shard, channel)
        _time_out_at(shard, channel, max(first_ms, shard.context.clock.now_ms + 1))


def _time_out_at(shard: ShardState, channel: Channel, due_ms: int) -> None:
    """Look at the timeouts of a channel then, unless that happens before."""
    if due_ms < channel.timeout_timer_ms:
        channel.timeout_timer_ms = due_ms
        shard.context.clock.arm(due_ms, TimerKind.CONSUMER_TIMEOUT, channel.number)


def _first_timeout(shard: ShardState, channel: Channel) -> tuple[int, int]:
    """When the first delivery of a channel is unsettled for too long, and how long that is.

    The later of deliveries with one timeout never comes first, so a consumer's oldest is enough,
    and of gets those before which no shorter timeout can begin.

    Returns:
        NEVER and 0 if none ever is.
    """
    shortest_ms = min(_timeout_ms(shard, NO_QUEUE), shard.context.vhost.shortest_timeout_ms())
    first_ms, waited_ms = NEVER, 0
    for consumer in channel.consumers.values():
        least_ms = _timeout_ms(shard, consumer.queue_number) if consumer.number else shortest_ms
        for delivery in consumer.deliveries:
            if delivery.at_ms + max(1, least_ms) >= first_ms:
                break
            timeout_ms = _timeout_ms(shard, delivery.queue_number)
            ends_ms = delivery.at_ms + max(1, timeout_ms)
            if ends_ms < first_ms:
                first_ms, waited_ms = ends_ms, timeout_ms
    return first_ms, waited_ms


def _timeout_ms(shard: ShardState, queue_number: int) -> int:
    """The timeout of deliveries of a queue; one that is deleted has that of the vhost."""
    vhost, config = shard.context.vhost, shard.context.config
    name = vhost.queue_names.get(queue_number)
    settings = _NO_SETTINGS if name is None else vhost.settings(vhost.queues[name])
    return consumer_timeout.timeout_ms(config, settings)


# -- consumers


def cancel_consumer(shard: ShardState, consumer: Consumer) -> None:
    """Cancel a consumer; an auto-delete queue is deleted with its last one (R-GONE-3).

    In a classic queue, heads die that are past their deadline and had no timer (R-PRI-4).
    """
    _cancel(shard, consumer)
    queue = shard.queues.by_number(consumer.queue_number)
    if queue is not None and not queue.quorum:
        queue.sweep()
    _serve(shard, [consumer.queue_number])


def _cancel_consumers(shard: ShardState, channel: Channel) -> list[int]:
    """Cancel the consumers of a channel; return their queues, which are not served yet.

    The active one of a queue comes last, so that no other of the channel takes its place.
    """
    consumers = channel.active_consumers()
    queues = [shard.queues.in_use(consumer.queue_number) for consumer in consumers]
    in_order = sorted(
        zip(consumers, queues, strict=True), key=lambda each: each[0].key == each[1].line.active
    )
    for consumer, _queue in in_order:
        _cancel(shard, consumer)
    return [queue.number for queue in queues if queue.line.single_active]


def _serve(shard: ShardState, numbers: list[int], *, early: bool = False) -> None:
    """Serve the queues of these that still exist and have a new single active consumer.

    Args:
        early: only those that hand over before they take messages back: not classic ones of 3.10.
    """
    late = early and shard.context.config.compat == "3.10"
    for number in numbers:
        queue = shard.queues.by_number(number)
        if queue is not None and queue.line.single_active and (queue.quorum or not late):
            queue.serve()


def _cancel(shard: ShardState, consumer: Consumer) -> None:
    consumer.active = False
    queue = shard.queues.in_use(consumer.queue_number)
    queue.remove_consumer(consumer)
    shard.channels.forget_consumer(consumer)
    _record_cancelled(shard, queue, consumer)
    if queue.declaration.auto_delete and not queue.line.consumers:
        delete_queue(shard, queue, "auto_delete")


def _record_cancelled(shard: ShardState, queue: Queue, consumer: Consumer) -> int:
    channel = consumer.channel
    detail = {"consumer": consumer.label, "name": channel.name, "user": channel.user}
    return record_channel(shard, "consumer_cancelled", queue.name, detail)


# -- queues


def declare_queue(shard: ShardState, declaration: Declaration) -> Queue:
    """Declare a queue that is not refused; an existing one stays as it is."""
    vhost = shard.context.vhost
    if declaration.name in vhost.queues:
        return shard.queues.named(declaration.name)
    queue = shard.queues.load(vhost.add_queue(declaration), declaration)
    queue.touch()
    record_declaration(
        shard, "queue_declared", declaration.name, {"type": declaration.queue_type}, declaration
    )
    return queue


def delete_queue(shard: ShardState, queue: Queue, cause: str) -> int:
    """Delete a queue: nothing is dead-lettered (R-GONE-2), orphans may be rerouted (R-QPID-1).

    Args:
        cause: `deleted`, `expired`, `auto_delete` or `exclusive`.

    Returns:
        How many copies were ready.
    """
    ready, size = queue.ready, queue.ready_bytes
    if queue.owner >= 0:
        shard.channels.owners.take(queue.owner, queue.number)
    copies, detached = queue.empty()
    channels = list(queue.unacked_on)
    copies.extend(_take_unacked(shard, queue))
    copies.sort(key=queue.place)
    copies.extend([held.copy for held in queue.held.take_all()])
    if queue.quorum:
        shard.channels.publishers.forget_queue(queue.number)
    _cancel_all(shard, queue)
    removed = shard.context.vhost.remove_queue(queue.name)
    shard.context.vhost.version += 1
    settings = queue.settings
    if settings.consumer_timeout_ms is not None:
        timeout_changed(shard, channels)
    for copy in copies:
        _lose(shard, queue.name, settings.alternate_exchange, copy, once=settings.reroute_once)
    detail = {"what": "queue_deleted", "name": queue.name, "cause": cause, "ready": ready}
    shard.context.events.add(Kind.TOPOLOGY, detail=detail)
    shard.queues.drop(queue)
    _detach(shard, queue, detached, (ready, size), deleted=True)
    auto_delete_sources(shard, removed)
    shard.dead_lettering.cascade()  # orphans arrive before anything else is deleted
    return ready


def _take_unacked(shard: ShardState, queue: Queue) -> list[Copy]:
    """The unacked copies of a queue that is being deleted; their deliveries become tombstones."""
    copies = []
    for channel_number in list(queue.unacked_on):
        channel = shard.channels.by_number(channel_number)
        own = [one for one in channel.consumers.values() if one.queue_number == queue.number]
        for consumer in (channel.gets, *own):
            for delivery in consumer.deliveries.take_of_queue(queue.number):
                queue.reclaim(channel_number, delivery.copy)
                copies.append(delivery.copy)
    return copies


def _cancel_all(shard: ShardState, queue: Queue) -> None:
    """Cancel the consumers of a queue that is being deleted, and tell their clients."""
    for key in queue.line.consumers:
        consumer = shard.channels.consumer(key)
        consumer.active = consumer.in_line = False
        shard.channels.forget_consumer(consumer)
        row = _record_cancelled(shard, queue, consumer)
        cancelled = CancelOut(row, consumer.channel.actor, consumer.label, queue.name)
        shard.context.outbound.append(cancelled)
    queue.line.clear()


def _lose(
    shard: ShardState, queue_name: str, alternate: str | None, copy: Copy, *, once: bool
) -> None:
    """Record a copy lost with its queue, or reroute it."""
    if alternate is None:
        shard.context.events.add(Kind.DELETED, queue_name, copy)
    else:
        shard.dead_lettering.reroute_from(queue_name, alternate, copy, "orphaned", once=once)


def purge_queue(shard: ShardState, queue: Queue) -> int:
    """Remove all ready copies without dead-lettering (R-GONE-1); return how many."""
    ready, size = queue.ready, queue.ready_bytes
    copies, detached = queue.empty()
    for copy in copies:
        shard.context.events.add(Kind.PURGED, queue.name, copy)
    _detach(shard, queue, detached, (ready, size), deleted=False)
    queue.settled()
    return ready


def _detach(
    shard: ShardState,
    queue: Queue,
    levels: list[LevelRecord],
    resident: tuple[int, int],
    *,
    deleted: bool,
) -> None:
    """Continue later with copies that were removed from a queue, if there are any.

    Args:
        resident: how many there are, and the bytes of their bodies.
    """
    if levels:
        settings = queue.settings
        record = DetachedRecord(
            queue.number,
            queue.name,
            queue.quorum,
            settings.max_priority,
            levels,
            deleted,
            settings.alternate_exchange,
            settings.reroute_once,
            *resident,
        )
        shard.unfinished.add_detached(record)


def continue_unfinished(shard: ShardState) -> None:
    """Do the next portion of work on very many copies."""
    for record, copy in shard.unfinished.advance():
        if record.deleted:
            alternate, once = record.alternate_exchange, record.reroute_once
            _lose(shard, record.queue_name, alternate, copy, once=once)
        else:
            shard.context.events.add(Kind.PURGED, record.queue_name, copy)


def queue_expiry_due(shard: ShardState, number: int, due_ms: int) -> None:
    """Delete a queue if it was unused for too long (R-QEXP-1)."""
    queue = shard.queues.by_number(number)
    if queue is None or queue.expiry_timer_ms != due_ms:
        return
    queue.expiry_timer_ms = NEVER
    expires_at_ms = queue.expires_at_ms()
    if expires_at_ms == NEVER:
        return
    expires_at_ms = shard.context.clock.postponed(expires_at_ms)
    if expires_at_ms <= shard.context.clock.now_ms:
        delete_queue(shard, queue, "expired")
    else:
        queue.expiry_timer_ms = expires_at_ms
        shard.context.clock.arm(expires_at_ms, TimerKind.EXPIRE_QUEUE, number)


# -- exchanges


def delete_exchange(shard: ShardState, name: str) -> None:
    """Delete an exchange with its bindings."""
    removed = shard.context.vhost.router.delete_exchange(name)
    record_change(shard, "exchange_deleted", name, {})
    auto_delete_sources(shard, removed)


def auto_delete_sources(shard: ShardState, removed: list[Binding]) -> None:
    """Delete each auto-delete exchange that lost its last binding."""
    router = shard.context.vhost.router
    for source in sorted({binding.source for binding in removed}):
        exchange = router.exchanges.get(source)
        if exchange is not None and exchange.auto_delete and not router.bindings.any_from(source):
            delete_exchange(shard, source)
