"""Quorum queues: what happens on arrival, on return, and when limits change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.broker.message import NEVER, NO_COPY
from streaming.broker.queues.order import RETURNED_POSITIONS, QuorumOrder
from streaming.broker.queues.queue import ACCEPTED, REFUSED, Queue
from streaming.broker.state.schema import QueueRecord
from streaming.broker.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.broker.message import Copy, Envelope, Message
    from streaming.broker.shard import Shard
    from topology.declarations import Queue as Declaration
    from topology.policies import QueueSettings

SOFT_LIMIT = (4, 5)
"""A blocked queue accepts publishes again at or below this fraction of its limits (R-LEN-15)."""


class QuorumQueue(Queue):
    """A quorum queue. `blocked` says that it refuses publishes until it falls to the soft limit."""

    __slots__ = ("by_return", "explicit_returns_to_tail")

    sweep_timer = TimerKind.SWEEP_QUORUM

    def __init__(
        self,
        shard: Shard,
        number: int,
        declaration: Declaration,
        settings: QueueSettings,
        record: QueueRecord,
    ) -> None:
        super().__init__(shard, number, declaration, record)
        self.mortal = True
        self.order = self.by_return = QuorumOrder(
            shard.store,
            f"p{number}",
            record.levels,
            two_levels=shard.config.compat != "3.10",
            taken=record.taken,
            next_return=record.next_return or RETURNED_POSITIONS,
        )
        self.apply_settings(settings)

    def apply_settings(self, settings: QueueSettings) -> None:
        """See `Queue`."""
        super().apply_settings(settings)
        self.explicit_returns_to_tail = (
            self.shard.config.compat == "3.10" and settings.delivery_limit is None
        )

    def _over_limit(self) -> bool:
        """R-LEN-17: copies held by at-least-once dead-lettering count too."""
        return (
            self.ready + self.held > self.max_length
            or self.ready_bytes + self.held_bytes > self.max_bytes
        )

    def would_refuse(self, size: int) -> bool:  # noqa: ARG002 - the soft limit looks at what is there
        """R-LEN-15: only while blocked."""
        return self.blocked

    def arrive(
        self,
        message: Message,
        envelope: Envelope,
        parent_copy_id: int,
        base_ms: int,
        failures: int = 0,
    ) -> int:
        """Append; expire from the head and hand out; then limits.

        Only publishers are told of a full queue: dead letters sent at most once are taken in.
        """
        if self.blocked and parent_copy_id == NO_COPY:
            return REFUSED
        copy = self.new_copy(message, envelope, parent_copy_id, base_ms)
        copy.failures = failures
        self.order.push(copy)
        self.ready += 1
        self.ready_bytes += message.size
        if copy.deadline_ms > self.shard.now_ms:
            self._settle_down()
        else:
            self._settle_moribund()
        return ACCEPTED

    def _settle_down(self) -> None:
        """After a change: expired heads die, consumers are served, then the limits act."""
        self.sweep()
        if self.waiting:
            self.shard.consumers.serve(self)
        self.settled()

    def _settle_moribund(self) -> None:
        """After a message with time to live 0: consumers and limits come first, expiry next.

        The broker lets such a message live to the end of the millisecond.
        """
        if self.waiting:
            self.shard.consumers.serve(self)
        self.settled()
        self.sweep()
        self.settled()

    def settled(self) -> None:
        """R-LEN-15, R-LEN-16: drop heads, or block and unblock publishes."""
        if self.blocked and self.max_length == NEVER == self.max_bytes:
            self.blocked = self.shard.config.compat == "3.10"  # which never looks at it again
        elif self.settings.overflow == "reject-publish":
            if self._over_limit():
                self.blocked = True
            elif self.blocked:
                self.blocked = not self._below_soft_limit()
        elif self._over_limit():
            dead_lettering = self.shard.dead_lettering
            mark = dead_lettering.mark()
            while self.ready and self._over_limit():
                head = self.take()
                dead_lettering.die(self, head, "maxlen")
            dead_lettering.reverse_since(mark)
            self.sweep()

    def _below_soft_limit(self) -> bool:
        part, whole = SOFT_LIMIT
        return (
            self.ready + self.held <= self.max_length * part // whole
            and self.ready_bytes + self.held_bytes <= self.max_bytes * part // whole
        )

    def before_get(self) -> None:
        """Expired heads die before one is handed out."""
        self.sweep()

    def after_take(self) -> None:
        """See `Queue`."""
        super().after_take()
        self.settled()

    def put_back(self, copies: Iterable[Copy], *, explicitly: bool) -> None:
        """R-SET-7, R-DLV-2: in front of all, in order of return; or dead if returned too often."""
        limit = self.settings.delivery_limit
        lost = not explicitly and self.shard.config.compat != "3.10"
        to_tail = explicitly and self.explicit_returns_to_tail
        for copy in copies:
            if lost:
                copy.failures += 1
            if limit is not None and copy.returns > limit:
                self.shard.dead_lettering.die(self, copy, "delivery_limit")
                continue
            if to_tail:
                copy.position = self.next_position
                self.next_position += 1
                self.order.push(copy)
            else:
                self.order.put_back(copy)
            self.ready += 1
            self.ready_bytes += copy.message.size
            self.shard.note_requeued(self, copy)
        self._settle_down()

    def settings_changed(self) -> None:
        """R-POL-8; the lease of `expires` starts anew."""
        self.settled()
        self.sweep()
        self.touch()

    def record(self) -> QueueRecord:
        """See `Queue`."""
        record = super().record()
        record.taken = self.by_return.taken
        record.next_return = self.by_return.next_return
        return record
