"""Commands about queues, and how a queue ends: deleted, expired, auto-deleted, with its channel."""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING

import msgspec

from streaming.broker import commands
from streaming.broker.events import Actor, Kind
from streaming.broker.handlers.access import Handler, Result, TopologyCommands
from streaming.broker.lanes import not_on_lanes, refuse_on_lanes
from streaming.broker.message import NEVER
from streaming.broker.outbound import CancelOut
from streaming.broker.timers import TimerKind
from topology.declarations import Queue as Declaration
from topology.permissions import needs_to_declare_queue
from topology.refusals import Refusal, exclusive_queue, no_queue, queue_in_use, queue_not_empty
from topology.validation.refuse import inequivalent_queue, refuse_queue

if TYPE_CHECKING:
    from streaming.broker.message import Copy
    from streaming.broker.queues.queue import Queue
    from topology.permissions import Access


class QueueCommands(TopologyCommands):
    """Those of one shard."""

    def handlers(self) -> dict[type, Handler]:
        """Which method carries out which command."""
        return {
            commands.DeclareQueue: self._declare_queue,
            commands.DeleteQueue: self._delete_queue,
            commands.Depth: self._depth,
            commands.Purge: self._purge,
        }

    def _declare_queue(self, actor: Actor, command: commands.DeclareQueue) -> Result:
        shard = self._shard
        declaration = command.queue
        unnamed = not declaration.name and not command.passive
        if unnamed:
            name = f"amq.gen-{shard.events.first_seq + len(shard.events)}"
            declaration = msgspec.structs.replace(declaration, name=name)
        if command.passive or declaration.name in shard.topology.queues:
            access: Access | None = None if command.passive else "configure"
            queue = self.usable_queue(actor, declaration.name, access)
            if isinstance(queue, Refusal):
                return queue
            if not command.passive:
                refusal = inequivalent_queue(queue.declaration, declaration, self._vhost)
                if refusal is not None:
                    return refusal
        else:
            refusal = self.refuse_queue(actor, declaration, unnamed=unnamed)
            if refusal is not None:
                return refusal
            queue = self.declare_queue(declaration)
            if declaration.exclusive:
                queue.owner = shard.channels.open(actor.user, actor.channel).number
        queue.touch()
        return {"queue": queue.name, "ready": queue.ready, "consumers": len(queue.consumers)}

    def refuse_queue(
        self, actor: Actor, declaration: Declaration, *, unnamed: bool = False
    ) -> Refusal | None:
        """Why the queue may not be declared by this user; None if it may, or is declared so.

        Args:
            unnamed: the name is of the broker's making, and may be one of the broker's own.
        """
        shard = self._shard
        known = shard.topology.queues.get(declaration.name)
        if known is not None:
            return self._forbidden(
                actor, [("configure", "queue", declaration.name)]
            ) or inequivalent_queue(known, declaration, self._vhost)
        if unnamed and shard.config.lanes > 1:
            return not_on_lanes(shard.config, "server-named queues")
        named = msgspec.structs.replace(declaration, name="(new)") if unnamed else declaration
        return (
            refuse_queue(named, self._vhost, shard.config.compat)
            or self._forbidden(actor, needs_to_declare_queue(declaration))
            or refuse_on_lanes(shard.topology.settings(declaration), declaration, shard.config)
        )

    def declare_queue(self, declaration: Declaration) -> Queue:
        """Declare a queue that is not refused; one that exists stays."""
        shard = self._shard
        known = shard.topology.queues.get(declaration.name)
        if known is not None:
            return shard.queues.named(declaration.name)
        number = shard.topology.add_queue(declaration)
        queue = shard.queues.load(number, declaration)
        queue.touch()
        self._changed("queue_declared", declaration.name, {"type": declaration.queue_type})
        return queue

    def usable_queue(self, actor: Actor, name: str, access: Access | None) -> Queue | Refusal:
        """A queue, or why this actor may not use it: 404, 403, 405."""
        shard = self._shard
        if access is not None:
            forbidden = self._forbidden(actor, [(access, "queue", name)])
            if forbidden is not None:
                return forbidden
        if name not in shard.topology.queues:
            return no_queue(name, self._vhost)
        queue = shard.queues.named(name)
        if queue.declaration.exclusive:
            channel = shard.channels.get(actor.user, actor.channel)
            if channel is None or channel.number != queue.owner:
                return exclusive_queue(name, self._vhost)
        return queue

    def _delete_queue(self, actor: Actor, command: commands.DeleteQueue) -> Result:
        name = command.queue
        forbidden = self._forbidden(actor, [("configure", "queue", name)])
        if forbidden is not None:
            return forbidden
        if name not in self._shard.topology.queues:
            return {"deleted_ready": 0}
        queue = self.usable_queue(actor, name, None)
        if isinstance(queue, Refusal):
            return queue
        if command.if_unused and queue.consumers:
            return queue_in_use(name, self._vhost)
        if command.if_empty and queue.ready:
            return queue_not_empty(name, self._vhost)
        return {"deleted_ready": self.delete_queue(queue, "deleted")}

    def delete_queue(self, queue: Queue, cause: str) -> int:
        """Delete a queue: nothing is dead-lettered (R-GONE-2), orphans may be rerouted (R-QPID-1).

        Args:
            cause: `deleted`, `expired`, `auto_delete` or `exclusive`.

        Returns:
            How many copies were ready.
        """
        shard = self._shard
        ready = queue.ready
        copies = queue.take_everything()
        for channel_number in list(queue.unacked_on):
            channel = shard.channels.by_number(channel_number)
            for stream in list(channel.streams.values()):
                for delivery in stream.take_of_queue(queue.number):
                    queue.reclaim(channel_number, delivery.copy)
                    copies.append(delivery.copy)
        copies.sort(key=queue.place)
        copies.extend(shard.at_least_once.take_all(queue))
        for channel_number, stream_number in queue.consumers:
            stream = shard.channels.by_number(channel_number).streams[stream_number]
            stream.active = False
            row = shard.sessions.note_cancelled(queue, stream)
            shard.outbound.append(CancelOut(row, stream.channel.actor, stream.label, queue.name))
        queue.consumers.clear()
        queue.waiting.clear()
        removed = shard.topology.remove_queue(queue.name)
        shard.topology_changed()
        self._let_go(queue, copies)
        self._note("queue_deleted", queue.name, {"cause": cause, "ready": ready})
        shard.queues.drop(queue)
        shard.administration.exchanges.auto_delete_sources(removed)
        shard.cascade()  # orphans arrive before anything else is deleted
        return ready

    def _let_go(self, queue: Queue, copies: list[Copy]) -> None:
        shard = self._shard
        for copy in copies:
            if queue.settings.alternate_exchange is not None:
                shard.rerouting.reroute(queue, copy, "orphaned")
            else:
                shard.events.add(Kind.DELETED, queue.name, copy)

    def queue_expiry_due(self, number: int, due_ms: int) -> None:
        """A queue may have been unused for too long (R-QEXP-1)."""
        shard = self._shard
        queue = shard.queues.by_number(number)
        if queue is None or queue.expiry_timer_ms != due_ms:
            return
        queue.expiry_timer_ms = NEVER
        expires_at_ms = queue.expires_at_ms()
        if expires_at_ms == NEVER:
            return
        expires_at_ms = shard.moved_on(expires_at_ms)
        if expires_at_ms <= shard.now_ms:
            self.delete_queue(queue, "expired")
        else:
            queue.expiry_timer_ms = expires_at_ms
            heappush(shard.timers, (expires_at_ms, TimerKind.EXPIRE_QUEUE, number))

    def _depth(self, actor: Actor, command: commands.Depth) -> Result:
        queue = self.usable_queue(actor, command.queue, None)
        if isinstance(queue, Refusal):
            return queue
        queue.touch()
        return {"ready": queue.ready}

    def _purge(self, actor: Actor, command: commands.Purge) -> Result:
        queue = self.usable_queue(actor, command.queue, "read")
        if isinstance(queue, Refusal):
            return queue
        copies = queue.take_everything()
        for copy in copies:
            self._shard.events.add(Kind.PURGED, queue.name, copy)
        queue.settled()
        return {"purged": len(copies)}
