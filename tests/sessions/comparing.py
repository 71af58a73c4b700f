"""Play a session on two brokers, say where they part, and shorten one that does."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from tests.sessions.player import Player, Record
from tests.sessions.steps import Step

_CONFIRM: Final = re.compile(r"Basic\.(Ack|Nack)\(")
_PUSHED: Final = re.compile(r"Basic\.(Nack|Deliver|Return)\(")
"""What comes by itself: among the answers to a burst, anywhere."""

_OF_QUEUES: Final = ("Basic.Ack(", "Basic.ConsumeOk(", "Basic.CancelOk(", "Basic.Cancel(")
"""What queues say when they have heard of it, or are gone."""

_BEHIND_AN_ERROR: Final = (
    "unexpected Basic.Deliver(",
    "unexpected content",
    "unexpected Channel.Close(reply_code=404, reply_text='NOT_FOUND - no previously declared",
)
"""What RabbitMQ 4.0.5 still says on a channel that it has closed; the client must ignore it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first step after which two brokers did not say the same.

    Attributes:
        steps: the session up to there.
        reference, other: what each said, by channel.
    """

    steps: tuple[Step, ...]
    reference: dict[str, list[str]]
    other: dict[str, list[str]]

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps]
        for name, seen in (("reference", self.reference), ("other", self.other)):
            lines.append(f"-- {name}")
            lines += [f"   {key}: {text}" for key, texts in sorted(seen.items()) for text in texts]
        return "\n".join(lines)


def difference(steps: list[Step], reference: Record, other: Record) -> Difference | None:
    """Where two records of a session part first."""
    for number, (one, two) in enumerate(zip(reference, other, strict=True)):
        is_burst = steps[number].op == "burst"
        pushed = _PUSHED if is_burst else _CONFIRM
        ones, twos = map(_certain, (one, two)) if is_burst else (one, two)
        if _comparable(ones, pushed) != _comparable(twos, pushed):
            return Difference(tuple(steps[: number + 1]), one, two)
    return None


def _certain(seen: dict[str, list[str]]) -> dict[str, list[str]]:
    """What does not depend on how fast RabbitMQ's queues are, of the answers to a burst.

    They confirm, and answer to a consumer, on their own: perhaps together, or behind an error. So
    ends a consumer whose queue is deleted: behind what is sent with the deletion, or never, if the
    channel is closed by then. What a queue delivers to a channel that an error closes comes before
    that or behind it.
    """
    found = {}
    for key, texts in seen.items():
        is_closed = any(text.startswith("Channel.Close(") for text in texts)
        delivered = ("Basic.Deliver(",) if is_closed else ()
        chance = (*_OF_QUEUES, *_BEHIND_AN_ERROR, *delivered)
        found[key] = [text for text in texts if not text.startswith(chance)]
    return found


def _comparable(
    seen: dict[str, list[str]], pushed: re.Pattern[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """What is pushed in a step in any order; everything else of a channel in its order.

    RabbitMQ ends the channels of a connection one by one, so one of them may still be sent what
    another has left behind. The client, which was told to close, must ignore it: deliveries of a
    connection that ends are not compared.

    A deleted queue cancels its consumers in the order of their tags in RabbitMQ, and in that of
    their subscriptions in ours; cancels in a row are compared sorted.
    """
    ended = {key.removesuffix("0") for key in seen if key.endswith("/0") and "closed" in seen[key]}
    left = {
        key: [
            text
            for text in texts
            if not (text.startswith("Basic.Deliver(") and key[: key.index("/") + 1] in ended)
        ]
        for key, texts in seen.items()
    }
    return {
        key: (
            sorted(text for text in texts if pushed.match(text)),
            [
                text
                for is_cancel, run in groupby(texts, lambda text: text.startswith("Basic.Cancel("))
                for text in (sorted(run) if is_cancel else run)
                if not pushed.match(text)
            ],
        )
        for key, texts in left.items()
        if texts
    }


def compare(
    steps: list[Step],
    reference: Callable[[], Player],
    other: Callable[[], Player],
    plays: int = 2,
) -> Difference | None:
    """Play a session on both brokers.

    Args:
        reference, other: make players on them.
        plays: how often the reference must do the same before it counts; what it does by chance
            is no reference.

    Returns:
        None too if the reference does not do the same twice.
    """
    with ThreadPoolExecutor(1) as beside:  # waits of both pass at the same time
        playing = beside.submit(other().play, steps)
        first = reference().play(steps)
        ours = playing.result()
    found = difference(steps, first, ours)
    if found is None:
        return None
    for _ in range(plays - 1):
        if difference(steps, first, reference().play(steps)) is not None:
            return None
    return found


def shorten(
    steps: list[Step], differs: Callable[[list[Step]], Difference | None]
) -> Difference | None:
    """Take steps out of a session as long as it differs.

    Args:
        differs: plays a session.

    Returns:
        None if it does not differ when it is played again: then the difference was chance.
    """
    found = differs(steps)
    if found is None:
        return None
    size = max(1, len(found.steps) // 2)
    while True:
        steps = list(found.steps)
        at = 0
        while at < len(steps) - 1:
            shorter = steps[:at] + steps[min(at + size, len(steps) - 1) :]
            tried = differs(shorter)
            if tried is None:
                at += size
            else:
                found, steps = tried, list(tried.steps)
        if size == 1:
            return found
        size //= 2
