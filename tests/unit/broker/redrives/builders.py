"""A broker with letters that died, and what is asked of its redrives."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.broker.commands import ControlRedrive, Redrive, RedriveAction
from streaming.broker.events import Kind
from streaming.broker.redrive_letters import Letter, RedriveOptions, Target
from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])
WORK = Target("work", "", ("work",))


def a_broker(letters: int = 5, **fields: Any) -> Broker:
    """A broker with letters `m0`, `m1`, ... in `dead`, which died in `work`."""
    broker = Broker(**fields)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for number in range(letters):
        broker.publish("", "work", f"m{number}", expiration="60000", headers={"n": number % 2})
    kill(broker, "work", letters)
    return broker


def kill(broker: Broker, queue: str, count: int) -> None:
    given = broker.get(queue, "kill", count=count, channel="killer")
    for number in range(len(given)):
        broker.reject(f"kill/{number}", channel="killer")


def events(broker: Broker) -> list[Any]:
    broker.finish()
    return broker.rows


def in_queue(broker: Broker, queue: str) -> list[int]:
    """The copies that ever entered a queue, oldest first."""
    return [row.seq for row in events(broker) if row.kind is Kind.ENQUEUED and row.queue == queue]


def letters(
    broker: Broker, target: Target | None = WORK, queue: str = "dead"
) -> tuple[Letter, ...]:
    return tuple(Letter(0, copy_id, queue, target) for copy_id in in_queue(broker, queue))


def redrive(broker: Broker, sealed: tuple[Letter, ...], **options: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": "r",
        "reason": "fixed",
        "seal": "s",
        "total": len(sealed),
        "first": 0,
    }
    fields |= {name: options.pop(name) for name in list(options) if name in fields}
    user = options.pop("user", None)
    command = Redrive(letters=sealed, options=RedriveOptions(**options), **fields)
    answer = broker.answer(command, user=user)
    assert isinstance(answer, dict), answer
    return answer


def control(broker: Broker, action: RedriveAction, redrive_id: str = "r", **fields: Any) -> Any:
    return broker.answer(ControlRedrive(id=redrive_id, action=action, reason="why"), **fields)


def skipped(broker: Broker) -> list[tuple[int, str]]:
    rows = [row.detail for row in events(broker) if row.kind is Kind.SKIPPED]
    return [(detail["copy_id"], detail["reason"]) for detail in rows]


def said(broker: Broker) -> list[str]:
    return [row.detail["what"] for row in events(broker) if row.kind is Kind.REDRIVE]
