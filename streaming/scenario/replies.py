"""The interface between a scenario's player and an engine: requests and replies.

A player sends one request after the other to a `Broker`. Answers, and deliveries to consumers
meanwhile, are `Reply` values in the form of the recordings.
"""

from typing import Any, NamedTuple, Protocol

from streaming.broker.commands import Command
from streaming.scenario.steps import Publish
from topology.refusals import Refusal

START_MS = 1_600_000_000_000
"""The instant of `at_ms` 0, chosen arbitrarily."""

VHOST = "<vhost>"
"""The virtual host in recorded error texts."""


class Delivered(NamedTuple):
    """A delivered message, as recorded but its ref.

    Automatic ack leaves `delivery_id` empty; `tag` is 0 where the engine does not tell it.
    """

    channel: str
    ref: str
    delivery_id: str
    queue: str
    message: dict[str, Any]
    tag: int = 0


class Confirmed(NamedTuple):
    """A publisher confirm."""

    ack: bool


class Returned(NamedTuple):
    """A message that was returned to its publisher; `message` as recorded."""

    code: int
    text: str
    message: dict[str, Any]


class Refused(NamedTuple):
    """A channel error of a publish, as recorded."""

    error: dict[str, Any]


class Answered(NamedTuple):
    """The answer to a command: its result, or its error as recorded."""

    result: dict[str, Any]
    error: dict[str, Any] | None


Reply = Delivered | Confirmed | Returned | Refused | Answered


class Broker(Protocol):
    """One virtual host, initially empty, its clock at 0. Each call returns its replies."""

    def advance(self, at_ms: int) -> list[Reply]:
        """Advance the clock to `at_ms` of the scenario."""

    def publish(self, publish: Publish) -> list[Reply]:
        """Publish with confirm."""

    def command(self, command: Command) -> list[Reply]:
        """Run a command."""

    def unacked(self, delivery_ids: list[str]) -> set[str]:
        """The deliveries of these that are not settled now."""


def error_record(refusal: Refusal) -> dict[str, Any]:
    """An error as recorded."""
    return {"code": refusal.code, "text": refusal.text}
