"""Turn the broker's events into sentences.

Sentences are written while the broker is in the state that the events left: the reason why a
message went somewhere depends on the topology at that instant.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from streaming.broker.dead_letters.x_death import matching_headers
from streaming.broker.events import DeathOutcome, Kind
from streaming.broker.message import NO_COPY, Copy
from streaming.broker.publishing import NO_CONSUMERS
from streaming.scenario.core_broker import CoreBroker
from streaming.scenario.replies import START_MS
from streaming.scenario.wording import exchange_words, immediate_way, keys_words, quoted, ways
from topology.policies import QueueSettings

Tone = Literal["title", "head", "plain", "good", "bad", "moved", "quiet"]


Sentence = tuple[str, Tone]
MORE = "    "
"""Indents a sentence that belongs to the one before."""


READY = "still ready"
"""The state of a copy that can still be delivered."""

_SETTLED: dict[Kind, tuple[str, str, Tone]] = {
    Kind.ACKED: ("acked", "is acked, and gone from {}", "good"),
    Kind.REQUEUED: (READY, "is requeued in {}", "plain"),
    Kind.PURGED: ("purged", "is purged from {}: no dead letter", "bad"),
    Kind.DELETED: ("lost with its queue", "is lost with {}: no dead letter", "bad"),
}
"""The end of a copy's path, and its sentence with the queue."""

MAX_PATHS = 10
"""Paths shown for one message; a fan-out in a ring makes thousands."""


class CopyPath(msgspec.Struct):
    """One copy: its queue, when it entered (epoch milliseconds), and how it ended there."""

    queue: str
    born_ms: int
    end: str = READY


class MessagePaths:
    """All copies of a play, and the messages that never reached a queue.

    'order 2'  work (rejected) -> retry (expired) -> work (acked)
    """

    def __init__(self) -> None:
        self._copies: dict[int, CopyPath] = {}
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        self._first: defaultdict[int, list[int]] = defaultdict(list)
        self._elsewhere: defaultdict[int, list[str]] = defaultdict(list)
        self._refused: defaultdict[int, list[str]] = defaultdict(list)

    def born(self, copy: Copy, queue: str, at_ms: int) -> None:
        """Note that a copy entered a queue."""
        self._copies[copy.copy_id] = CopyPath(queue, at_ms)
        if copy.parent_copy_id == NO_COPY:
            self._first[copy.message.offset].append(copy.copy_id)
        else:
            self._children[copy.parent_copy_id].append(copy.copy_id)

    def is_known(self, copy: Copy) -> bool:
        """Whether the copy entered a queue; one that the queue rejected did not."""
        return copy.copy_id in self._copies

    def now(self, copy: Copy, end: str) -> None:
        """Set the state of a copy."""
        self._copies[copy.copy_id].end = end

    def no_queue(self, offset: int, what: str) -> None:
        """Note that a message, or one of its copies, did not enter a queue."""
        self._elsewhere[offset].append(what)

    def refused(self, parent: Copy, queue: str) -> None:
        """Note that a queue refused the dead letter of a copy."""
        self._refused[parent.copy_id].append(queue)

    def born_ms(self, copy: Copy) -> int:
        """When a copy entered its queue, epoch milliseconds."""
        return self._copies[copy.copy_id].born_ms

    def of_message(self, offset: int) -> list[str]:
        """The paths of one message, one line each."""
        paths = list(self._paths(offset))
        if len(paths) > MAX_PATHS:
            return [*paths[:MAX_PATHS], f"... and {len(paths) - MAX_PATHS} more paths"]
        return paths or ["nowhere"]

    def _paths(self, offset: int) -> Iterator[str]:
        work = [(copy_id, "") for copy_id in reversed(self._first[offset])]
        while work:
            copy_id, before = work.pop()
            copy = self._copies[copy_id]
            here = f"{before}{copy.queue!r} ({copy.end})"
            children, refused = self._children[copy_id], self._refused[copy_id]
            yield from (f"{here} -> {queue!r} (refused)" for queue in refused)
            if not children and not refused:
                yield here
            work += [(child, f"{here} -> ") for child in reversed(children)]
        yield from self._elsewhere[offset]


class News(NamedTuple):
    """A sentence about an event, and its virtual time in milliseconds."""

    at_ms: int
    kind: Kind
    text: str
    tone: Tone = "plain"


class Narration:
    """Tells each event of a broker once."""

    def __init__(self, broker: CoreBroker, names: list[str]) -> None:
        self._broker = broker
        self._names = names
        self.paths = MessagePaths()
        self._alternates: dict[str, str] = {}
        self._row = 0
        self._times = 0
        self._now_ms = 0
        self._deaths = 0

    def news(self) -> list[News]:
        """The sentences about new events."""
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
        self._note_alternates()
        return told

    def _note_alternates(self) -> None:
        """Keep the alternate exchange of each queue: a queue's orphans outlive it."""
        shard = self._broker.shard
        for name, declaration in shard.vhost.queues.items():
            alternate = shard.state.queues.settings_for(declaration).alternate_exchange
            if alternate is not None:
                self._alternates[name] = alternate

    def _new_plans(self) -> dict[int, DeathOutcome]:
        events = self._broker.shard.events
        rows = events.death_rows[self._deaths :]
        outcomes = events.death_outcomes[self._deaths :]
        self._deaths += len(rows)
        return dict(zip(rows, outcomes, strict=True))

    def _sentences(self, row: int, plans: dict[int, DeathOutcome]) -> Iterator[Sentence]:
        events = self._broker.shard.events
        kind, queue, copy = Kind(events.kinds[row]), events.queues[row], events.copies[row]
        if copy is not None:
            yield from self._of_copy(row, kind, queue, copy, plans)
        elif row in events.messages:
            yield from self._of_message(row, kind, queue)
        else:
            yield from _of_the_rest(kind, queue, self._detail(row))

    # -- copies

    def _of_copy(
        self, row: int, kind: Kind, queue: str, copy: Copy, plans: dict[int, DeathOutcome]
    ) -> Iterator[Sentence]:
        name, there = self._names[copy.message.offset], f"queue {quoted(queue)}"
        ref = self._broker.refs.get(row, "")
        match kind:
            case Kind.ENQUEUED:
                self.paths.born(copy, queue, self._now_ms)
                yield self._arrival(name, queue, copy)
            case Kind.DELIVERED:
                again = ", redelivered" if copy.requeue_count else ""
                self.paths.now(copy, f"unacked as {ref}")
                yield f"{name} is delivered from {there} as {ref}{again}, and is unacked", "plain"
            case Kind.CONSUMED:
                self.paths.now(copy, "taken")
                yield f"{name} is delivered from {there} as {ref}, and gone from it", "good"
            case Kind.ACKED | Kind.REQUEUED | Kind.PURGED | Kind.DELETED:
                end, what, tone = _SETTLED[kind]
                self.paths.now(copy, end)
                yield f"{name} {what.format(there)}", tone
            case Kind.HELD:
                self.paths.now(copy, "dead and held")
                reason = self._why(queue, copy, self._detail(row)["reason"])
                yield f"{name} dies in {there}: {reason}", "bad"
                yield f"{MORE}kept there until its dead letter is accepted (at least once)", "bad"
            case _:
                yield from self._death(kind, queue, copy, plans[row])
                for target in plans[row].refused:
                    self.paths.refused(copy, target)

    def _detail(self, row: int) -> dict[str, Any]:
        return self._broker.shard.events.details.get(row, {})

    def _arrival(self, name: str, queue: str, copy: Copy) -> Sentence:
        router = self._broker.shard.vhost.router
        envelope = copy.envelope
        headers = matching_headers(envelope, self._broker.published(copy.message))
        how = ways(router, envelope, headers).get(queue)
        if how is None and copy.parent_copy_id == NO_COPY:  # its own route had no free consumer
            how = immediate_way(router, envelope, headers, queue)
        by = f", {how}" if how else ""
        if copy.parent_copy_id == NO_COPY:
            return f"{name} -> queue {quoted(queue)}{by}", "plain"
        letter = "as a dead letter" if envelope.deaths else "rerouted"
        return f"{name} -> queue {quoted(queue)}, {letter}{by}", "moved"

    # -- deaths

    def _death(self, kind: Kind, queue: str, copy: Copy, plan: DeathOutcome) -> Iterator[Sentence]:
        name, there = self._names[copy.message.offset], f"queue {quoted(queue)}"
        if not self.paths.is_known(copy):
            self.paths.born(copy, queue, self._now_ms)
        end = plan.reason
        if kind == Kind.REROUTED:
            yield (
                f"{name} leaves {there}, {plan.reason}, for that queue's alternate exchange",
                "bad",
            )
        else:
            yield f"{name} dies in {there}: {self._why(queue, copy, plan.reason)}", "bad"
        if plan.cycles:
            names = ", ".join(quoted(cycled) for cycled in plan.cycles)
            why = "it died there before and was not rejected since (a cycle)"
            yield f"{MORE}not back into {names}: {why}", "bad"
        if plan.targets or plan.refused:
            envelope = plan.envelope
            keys = keys_words(envelope.routing_keys)
            letter = "it" if kind == Kind.REROUTED else "its dead letter"
            goes = f"{MORE}{letter} goes to {exchange_words(envelope.exchange)} with {keys}"
            yield goes, "moved"
        else:
            end = f"{plan.reason}, lost"
            yield f"{MORE}it is lost: {self._lost(kind, queue, plan)}", "bad"
        self.paths.now(copy, end)

    def _why(self, queue: str, copy: Copy, reason: str) -> str:
        """An explanation of the reason of a death."""
        settings = self._settings(queue)
        match reason:
            case "rejected":
                return "rejected without requeue"
            case "expired":
                return f"expired, {copy.deadline_ms - self.paths.born_ms(copy)} ms after it arrived"
            case "maxlen" if copy.position < 0:
                return "maxlen, the queue is full and turns it away"
            case "maxlen":
                return "maxlen, the queue is too full and drops its head"
            case "delivery_limit":
                limit = None if settings is None else settings.delivery_limit
                return f"delivery_limit, it was requeued more than {limit} times"
            case _:
                return reason

    def _lost(self, kind: Kind, queue: str, plan: DeathOutcome) -> str:
        """Why a message that left its queue went nowhere."""
        settings = self._settings(queue)
        exchange = exchange_words(plan.envelope.exchange)
        wanted = None if settings is None else settings.dead_letter_exchange
        match plan.outcome:
            case "no_exchange" if kind == Kind.REROUTED:
                alternate = quoted(self._alternates.get(queue, ""))
                return f"the queue's alternate exchange, {alternate}, does not exist"
            case "rerouted_before":
                return "it was rerouted before, which happens to a message only once"
            case "no_exchange":
                if wanted is None:
                    return "the queue has no dead-letter exchange"
                return f"the dead-letter exchange, {quoted(wanted)}, does not exist"
            case "no_route":
                keys = keys_words(plan.envelope.routing_keys)
                return f"{exchange} has no route for {keys}"
            case "cycle":
                return "no other queue is reached"
            case "strategy_changed":
                return "its queue no longer dead-letters at least once"
            case "cascade_limit":
                return "the limit of dead letters of one message at once is reached"
            case _:
                return plan.outcome.replace("_", " ")

    def _settings(self, queue: str) -> QueueSettings | None:
        """The settings in force for a queue; None if it no longer exists."""
        shard = self._broker.shard
        known = shard.vhost.queues.get(queue)
        return None if known is None else shard.state.queues.settings_for(known)

    # -- messages that are in no queue

    def _of_message(self, row: int, kind: Kind, queue: str) -> Iterator[Sentence]:
        events = self._broker.shard.events
        message, envelope = events.messages[row]
        offset, name = message.offset, self._names[message.offset]
        match kind:
            case Kind.REFUSED:
                letter = ""
                if envelope is not None and (envelope.deaths or envelope.rerouted):
                    letter = ", as a dead letter," if envelope.deaths else ", rerouted,"
                else:
                    self.paths.no_queue(offset, f"{quoted(queue)} (refused)")
                yield f"{name}{letter} is refused by queue {quoted(queue)}, which is full", "bad"
            case Kind.UNROUTABLE:
                self.paths.no_queue(offset, "dropped: no queue")
                why = ""
                if envelope is not None:
                    keys = keys_words(envelope.routing_keys)
                    why = f": {exchange_words(envelope.exchange)} has no route for {keys}"
                yield f"{name} reaches no queue, and is dropped{why}", "bad"
            case Kind.RETURNED if events.numbers[row] == NO_CONSUMERS:
                self.paths.no_queue(offset, "returned: no consumer")
                what = "finds no consumer that can take it at once"
                yield f"{name} {what}, and is returned to its publisher", "bad"
            case Kind.RETURNED:
                self.paths.no_queue(offset, "returned: no queue")
                yield f"{name} reaches no queue, and is returned to its publisher", "bad"
            case _:
                detail = self._detail(row)
                self.paths.no_queue(offset, f"refused: {detail.get('code')}")
                yield _refused(detail), "bad"


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
            name = detail.get("queue", queue)
            owner = f"queue {quoted(name)}" if name else exchange_words(detail["exchange"])
            yield f"warning: the alternate exchange of {owner} does not exist: {alternate}", "bad"
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
