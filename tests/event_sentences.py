"""A batch's events as sentences, and its replies to publishers."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.broker.events import DeathOutcome
from streaming.broker.outbound import ConfirmOut, Outbound, PublishErrorOut, ReturnOut
from streaming.broker.shard import Batch
from topology.refusals import Refusal


def sentences(bodies: list[str], batch: Batch) -> Iterator[str]:
    """The events of copies as sentences, without other kinds of events."""
    events = batch.events
    deaths = {
        row: (plan, outcome, targets)
        for row, _copy, _queue, plan, outcome, targets in events.deaths()
    }
    for row, event in enumerate(events.rows()):
        if event.copy is None:
            if row in events.messages:
                message = bodies[events.messages[row][0].offset]
                place = f" by {event.queue}" if event.queue else ""
                yield f"{message} {event.kind.name.lower()}{place}"
            continue
        body = bodies[event.copy.message.offset]
        what = f"{body} {event.kind.name.lower()} in {event.queue}"
        if row in deaths:
            what += died(*deaths[row])
        yield what


def died(plan: DeathOutcome, outcome: str, targets: tuple[str, ...]) -> str:
    """The end of a sentence about a death."""
    return f", {plan.reason}, to {', '.join(targets) or f'nowhere: {outcome}'}"


def confirms(out: list[Outbound]) -> list[bool]:
    """The confirms among the outbound records of a publish."""
    return [one.ack for one in out if isinstance(one, ConfirmOut)]


def returns(out: list[Outbound]) -> list[tuple[int, str, str, str | None]]:
    """Code, text, exchange and routing key of each returned message."""
    return [
        (one.code, one.text, one.envelope.exchange, one.envelope.routing_keys[0])
        for one in out
        if isinstance(one, ReturnOut)
    ]


def error_of(outs: list[Outbound]) -> Refusal | None:
    """The refusal among the outbound records of a publish."""
    return next((out.refusal for out in outs if isinstance(out, PublishErrorOut)), None)
