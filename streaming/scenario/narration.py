"""From the broker's events to sentences.

Sentences are made while the broker is as the events left it: why a message went where it went
depends on the topology of that instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from streaming.broker.dead_letters.dead_lettering import DeathPlan
from streaming.broker.dead_letters.x_death import matching_headers
from streaming.broker.events import Kind
from streaming.broker.message import NO_COPY, Copy, Envelope
from streaming.scenario.core_broker import CoreBroker
from streaming.scenario.message_paths import READY, Lives
from streaming.scenario.replies import START_MS
from streaming.scenario.wording import exchange_words, keys_words, quoted, ways
from topology.policies import QueueSettings

Tone = Literal["title", "head", "plain", "good", "bad", "moved", "quiet"]


Sentence = tuple[str, Tone]
MORE = "    "
"""Before a sentence that belongs to the one in front."""


class News(NamedTuple):
    """A sentence about an event, and its virtual time in milliseconds."""

    at_ms: int
    kind: Kind
    text: str
    tone: Tone = "plain"


class Narration:
    """What happens on a broker, told once.

    Args:
        names: what the messages are called, in the order of their publishing.
    """

    def __init__(self, broker: CoreBroker, names: list[str]) -> None:
        self._broker = broker
        self._names = names
        self.lives = Lives()
        self._row = 0
        self._times = 0
        self._now_ms = 0
        self._deaths = 0

    def news(self) -> list[News]:
        """What happened since the last call."""
        events = self._broker.shard.events
        plans = self._new_plans()
        told: list[News] = []
        while self._row < len(events):
            row = self._row
            while self._times < len(events.times) and events.times[self._times][0] <= row:
                self._now_ms = events.times[self._times][1]
                self._times += 1
            at_ms = self._now_ms - START_MS
            kind = Kind(events.kinds[row])
            told += [News(at_ms, kind, *sentence) for sentence in self._sentences(row, plans)]
            self._row += 1
        return told

    def _new_plans(self) -> dict[int, DeathPlan]:
        events = self._broker.shard.events
        rows, plans = events.death_rows[self._deaths :], events.death_plans[self._deaths :]
        self._deaths += len(rows)
        cut = events.cut_deaths
        return {
            row: cut[row][0] if row in cut else plan for row, plan in zip(rows, plans, strict=True)
        }

    def _sentences(self, row: int, plans: dict[int, DeathPlan]) -> Iterator[Sentence]:
        events = self._broker.shard.events
        kind, queue, copy = Kind(events.kinds[row]), events.queues[row], events.copies[row]
        detail = self._detail(row)
        if copy is not None:
            yield from self._of_copy(row, kind, queue, copy, plans)
        elif row in events.messages:
            message, envelope = events.messages[row]
            yield from self._of_message(kind, queue, message.offset, envelope, detail)
        else:
            yield from _of_the_rest(kind, queue, detail)

    # -- copies

    def _of_copy(
        self, row: int, kind: Kind, queue: str, copy: Copy, plans: dict[int, DeathPlan]
    ) -> Iterator[Sentence]:
        name, there = self._names[copy.message.offset], f"queue {quoted(queue)}"
        ref = self._broker.refs.get(row, "")
        match kind:
            case Kind.ENQUEUED:
                self.lives.born(copy, queue, self._now_ms)
                yield self._arrival(name, queue, copy)
            case Kind.DELIVERED:
                again = ", redelivered" if copy.returns else ""
                self.lives.now(copy, f"unacked as {ref}")
                yield f"{name} is handed out of {there} as {ref}{again}, and is unacked", "plain"
            case Kind.CONSUMED:
                self.lives.now(copy, "taken")
                yield f"{name} is handed out of {there} as {ref}, and gone from it", "good"
            case Kind.ACKED:
                self.lives.now(copy, "acked")
                yield f"{name} is acked, and gone from {there}", "good"
            case Kind.REQUEUED:
                self.lives.now(copy, READY)
                yield f"{name} goes back into {there}", "plain"
            case Kind.PURGED:
                self.lives.now(copy, "purged")
                yield f"{name} is purged from {there}: no dead letter", "bad"
            case Kind.DELETED:
                self.lives.now(copy, "lost with its queue")
                yield f"{name} is lost with {there}: no dead letter", "bad"
            case Kind.HELD:
                self.lives.now(copy, "dead and held")
                reason = self._why(queue, copy, self._detail(row)["reason"])
                yield f"{name} dies in {there}: {reason}", "bad"
                yield f"{MORE}kept there until its dead letter is accepted (at least once)", "bad"
            case _:
                yield from self._death(kind, queue, copy, plans[row])
                for target in self._broker.shard.events.refused_deaths.get(row, ()):
                    self.lives.refused(copy, target)

    def _detail(self, row: int) -> dict[str, Any]:
        return self._broker.shard.events.details.get(row, {})

    def _arrival(self, name: str, queue: str, copy: Copy) -> Sentence:
        router = self._broker.shard.topology.router
        envelope = copy.envelope
        how = ways(router, envelope, matching_headers(envelope)).get(queue)
        by = f", {how}" if how else ""
        if copy.parent_copy_id == NO_COPY:
            return f"{name} -> queue {quoted(queue)}{by}", "plain"
        letter = "as a dead letter" if envelope.deaths else "rerouted"
        return f"{name} -> queue {quoted(queue)}, {letter}{by}", "moved"

    # -- deaths

    def _death(self, kind: Kind, queue: str, copy: Copy, plan: DeathPlan) -> Iterator[Sentence]:
        name, there = self._names[copy.message.offset], f"queue {quoted(queue)}"
        if not self.lives.is_known(copy):
            self.lives.born(copy, queue, self._now_ms)
        end = plan.reason
        if kind == Kind.REROUTED:
            yield f"{name} leaves {there}, {plan.reason}, by that queue's alternate exchange", "bad"
        else:
            yield f"{name} dies in {there}: {self._why(queue, copy, plan.reason)}", "bad"
        if plan.cycles:
            yield f"{MORE}{_cycle(plan.cycles)}", "bad"
        if plan.targets:
            envelope = plan.envelope
            keys = keys_words(envelope.routing_keys)
            letter = "it" if kind == Kind.REROUTED else "its dead letter"
            goes = f"{MORE}{letter} goes to {exchange_words(envelope.exchange)} with {keys}"
            yield goes, "moved"
        else:
            end = f"{plan.reason}, lost"
            yield f"{MORE}it is lost: {self._lost(queue, plan)}", "bad"
        self.lives.now(copy, end)

    def _why(self, queue: str, copy: Copy, reason: str) -> str:
        """The reason of a death, explained."""
        settings = self._settings(queue)
        match reason:
            case "rejected":
                return "rejected without requeue"
            case "expired":
                return f"expired, {copy.deadline_ms - self.lives.born_ms(copy)} ms after it came"
            case "maxlen" if copy.position < 0:
                return "maxlen, the queue is full and turns it away"
            case "maxlen":
                return "maxlen, the queue is too full and drops its head"
            case "delivery_limit":
                limit = None if settings is None else settings.delivery_limit
                return f"delivery_limit, it came back more than {limit} times"
            case _:
                return reason

    def _lost(self, queue: str, plan: DeathPlan) -> str:
        """Why a death has no dead letter."""
        settings = self._settings(queue)
        exchange = exchange_words(plan.envelope.exchange)
        wanted = None if settings is None else settings.dead_letter_exchange
        match plan.outcome:
            case "no_exchange":
                if wanted is None:
                    return "the queue has no dead-letter exchange"
                return f"the dead-letter exchange, {quoted(wanted)}, does not exist"
            case "no_route":
                keys = keys_words(plan.envelope.routing_keys)
                return f"{exchange} leads nowhere with {keys}"
            case "cycle":
                return "no other queue is reached"
            case "cascade_limit":
                return "one message may not leave so many dead letters at once"
            case _:
                return plan.outcome.replace("_", " ")

    def _settings(self, queue: str) -> QueueSettings | None:
        """What is in force for a queue, if it still exists."""
        shard = self._broker.shard
        known = shard.topology.queues.get(queue)
        return None if known is None else shard.queues.settings_for(known)

    # -- messages that are in no queue

    def _of_message(
        self, kind: Kind, queue: str, offset: int, envelope: Envelope | None, detail: dict[str, Any]
    ) -> Iterator[Sentence]:
        name = self._names[offset]
        match kind:
            case Kind.REFUSED:
                letter = ""
                if envelope is not None and (envelope.deaths or envelope.rerouted):
                    letter = ", as a dead letter," if envelope.deaths else ", rerouted,"
                else:
                    self.lives.no_queue(offset, f"{quoted(queue)} (refused)")
                yield f"{name}{letter} is refused by queue {quoted(queue)}, which is full", "bad"
            case Kind.UNROUTABLE:
                self.lives.no_queue(offset, "dropped: no queue")
                yield f"{name} reaches no queue, and is dropped{_where_to(envelope)}", "bad"
            case Kind.RETURNED:
                self.lives.no_queue(offset, "returned: no queue")
                yield f"{name} reaches no queue, and is returned to its publisher", "bad"
            case _:
                self.lives.no_queue(offset, f"refused: {detail.get('code')}")
                yield _refused(detail), "bad"


def _where_to(envelope: Envelope | None) -> str:
    if envelope is None:
        return ""
    keys = keys_words(envelope.routing_keys)
    return f": {exchange_words(envelope.exchange)} leads nowhere with {keys}"


def _cycle(queues: tuple[str, ...]) -> str:
    names = ", ".join(quoted(queue) for queue in queues)
    return f"not back into {names}: it died there before, and nobody rejected it since (a cycle)"


def _refused(detail: dict[str, Any]) -> str:
    return f"refused, and the channel closed: {detail['code']} {detail['text']}"


def _of_the_rest(kind: Kind, queue: str, detail: dict[str, Any]) -> Iterator[Sentence]:
    """Commands, channels and the topology."""
    what = str(detail.get("what", "")).replace("_", " ")
    match kind:
        case Kind.COMMAND_ERROR:
            yield _refused(detail), "bad"
        case Kind.SETTLE_MISSED:
            yield f"{detail['ref']} is not unacked: nothing happens to it", "quiet"
        case Kind.WARNING:
            alternate = quoted(detail["missing_alternate_exchange"])
            what = f"the alternate exchange of {exchange_words(detail['exchange'])}"
            yield f"warning: {what} does not exist: {alternate}", "bad"
        case Kind.TOPOLOGY if "cause" in detail:
            yield f"queue {quoted(detail['name'])} is deleted: {_CAUSES[detail['cause']]}", "quiet"
        case Kind.TOPOLOGY if detail["name"]:
            yield f"{what}: {quoted(detail['name'])}", "quiet"
        case Kind.CHANNEL if "consumer" in detail:
            yield f"{what}: {quoted(detail['consumer'])} of queue {quoted(queue)}", "quiet"
        case Kind.CHANNEL if "name" in detail:
            yield f"{what}: {quoted(detail['name'])}", "quiet"


_CAUSES = {
    "auto_delete": "its last consumer is gone",
    "deleted": "by command",
    "exclusive": "its channel is closed",
    "expired": "nobody used it",
}
