"""Checking: whether publishes and settlements would be refused, asked before they are made.

A transaction asks before it commits, for what is refused afterwards is refused alone. RabbitMQ
checks each step of a transaction when it is issued, as the steps are checked here: in their order,
each as if those before it had been taken, and nothing had taken effect yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaming.broker.channels.delivery_refs import Refs
from streaming.broker.commands import CheckedPublish, Reject
from streaming.broker.message import Publication
from streaming.broker.state.schema import NO_QUEUE
from topology.refusals import unknown_delivery

if TYPE_CHECKING:
    from streaming.broker.channels.streams import Stream
    from streaming.broker.commands import Check, Settlement
    from streaming.broker.events import Actor
    from streaming.broker.shard import Shard
    from streaming.broker.state.schema import Delivery
    from topology.refusals import Refusal


class Checks:
    """The checks of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def check(self, actor: Actor, command: Check) -> dict[str, Any] | Refusal:
        """Nothing, or the first refusal there would be."""
        settled = _Settled()
        for step in command.steps:
            if isinstance(step, CheckedPublish):
                refusal = self._refuse_publish(step, actor.user)
            else:
                refusal = self._refuse_settlement(step, actor.user, settled)
            if refusal is not None:
                return refusal
        return {}

    def _refuse_publish(self, step: CheckedPublish, user: str | None) -> Refusal | None:
        properties = {} if step.expiration is None else {"expiration": step.expiration}
        publication = Publication(step.exchange, "", properties, step.headers)
        return self._shard.publishing.refuse(publication, user)

    def _refuse_settlement(
        self, step: Settlement, user: str | None, settled: _Settled
    ) -> Refusal | None:
        refs = Refs(self._shard.channels, user, step.channel)
        multiple = not isinstance(step, Reject) and step.multiple
        for ref in step.refs:
            meant = (each for each in refs.meant(refs.find(ref)) if not settled.has(*each))
            stream, delivery = next(meant, (None, None))
            if stream is None or delivery is None or delivery.queue_number == NO_QUEUE:
                return unknown_delivery(ref)
            settled.add(stream, delivery, multiple=multiple)
        return None


class _Settled:
    """What the steps so far would settle."""

    def __init__(self) -> None:
        self._tags: set[tuple[int, int]] = set()  # channel, tag
        self._up_to: dict[int, int] = {}  # channel -> tag

    def has(self, stream: Stream, delivery: Delivery) -> bool:
        number, tag = stream.channel.number, delivery.tag
        return tag <= self._up_to.get(number, 0) or (number, tag) in self._tags

    def add(self, stream: Stream, delivery: Delivery, *, multiple: bool) -> None:
        """Settle it; it is above all that `multiple` settled before."""
        number = stream.channel.number
        if multiple:
            self._up_to[number] = delivery.tag
        else:
            self._tags.add((number, delivery.tag))
