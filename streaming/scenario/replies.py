"""What a scenario is played on, and what comes back: the same for every engine.

A player asks a `Broker` one thing after the other. What the broker says in reply, and what it says
to consumers meanwhile, are `Reply` values that hold the form in which recordings have it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from streaming.broker.commands import Command
from streaming.scenario.steps import Publish
from topology.refusals import Refusal

START_MS = 1_600_000_000_000
"""The instant of `at_ms` 0; any would do."""

VHOST = "<vhost>"
"""What recorded error texts call the virtual host."""


class Delivered(NamedTuple):
    """A message handed out.

    Attributes:
        delivery_id: empty with automatic ack.
        message: as recorded, without its ref.
    """

    channel: str
    ref: str
    delivery_id: str
    queue: str
    message: dict[str, Any]


class Confirmed(NamedTuple):
    """A publisher confirm."""

    ack: bool


class Returned(NamedTuple):
    """A message that came back to its publisher; `message` as recorded."""

    code: int
    text: str
    message: dict[str, Any]


class Refused(NamedTuple):
    """A publish refused with a channel error, as recorded."""

    error: dict[str, Any]


class Answered(NamedTuple):
    """The answer to a command: its result, or its error as recorded."""

    result: dict[str, Any]
    error: dict[str, Any] | None


Reply = Delivered | Confirmed | Returned | Refused | Answered


class Broker(Protocol):
    """One virtual host, empty at first, its clock at 0. Each call gives what came of it."""

    def advance(self, at_ms: int) -> list[Reply]:
        """Let time pass up to `at_ms` of the scenario."""

    def publish(self, publish: Publish) -> list[Reply]:
        """Publish, with confirm."""

    def command(self, command: Command) -> list[Reply]:
        """Do a command."""

    def unacked(self, delivery_ids: list[str]) -> set[str]:
        """Which of these deliveries are not settled at this moment."""


def error_record(refusal: Refusal) -> dict[str, Any]:
    """An error as recorded."""
    return {"code": refusal.code, "text": refusal.text}
