"""What one channel asks of its vhost: commands, each with what to do with its answer; and acks.

Nothing is answered at once: what came of a request is heard when the vhost has applied it, which
may be after the next request. Single acks of deliveries in a row go to the broker together, as a
range. Everything else that the channel does flushes them first, so the order of the client holds.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from streaming.amqp.entries import Ask, Publish, Settle, Then
from streaming.amqp.errors import AmqpError
from streaming.amqp.outgoing import Confirms
from streaming.amqp.stored import Stored
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.commands import Command, SettleOutcome
from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.broker.outbound import AnswerOut
from topology.refusals import Refusal

Answered = Callable[[dict[str, Any]], None]
"""What to do with the result of a command."""

Refused = Callable[[AmqpError, tuple[int, int]], None]
"""What to do when the broker refused something, and has closed the channel: which method it was."""

ACK_METHOD = (60, 80)


def nothing(_result: dict[str, Any]) -> None:
    """Answer nothing: the client asked for no answer."""


class Requests:
    """The requests of one channel to its vhost.

    Attributes:
        is_over: whether the channel is closed, as far as is known here; nothing is asked any more.
    """

    def __init__(
        self, vhost: OpenVhost, actor: Actor, confirms: Confirms, refused: Refused
    ) -> None:
        self.vhost = vhost
        self.actor = actor
        self.is_over = False
        self._confirms = confirms
        self._refused = refused
        self._asked: deque[tuple[tuple[int, int], Answered]] = deque()
        self._sent = 0  # the ticket of the newest request
        self._first_ack = 0
        self._last_ack = 0

    def ask(self, method: tuple[int, int], command: Command, done: Answered) -> None:
        """Carry out a command; its answer goes to `done`."""
        self.flush_acks()
        if not self.is_over:
            self._asked.append((method, done))
            self._sent = self.vhost.submit(Ask(self.actor, command))

    def answered(self, out: AnswerOut) -> None:
        """Take the answer to the oldest command that waits for one."""
        method, done = self._asked.popleft()
        if out.refusal is None:
            done(out.result)
        else:
            self._refuse(out.refusal, method)

    def _refuse(self, refusal: Refusal, method: tuple[int, int]) -> None:
        if not self.is_over:
            self._refused(AmqpError(refusal.code, refusal.text), method)

    def publish(self, publication: Publication, stored: Stored, flags: int, number: int) -> None:
        """Publish a message; `number`: 0 if it is not confirmed."""
        if self._first_ack:
            self.flush_acks()
        if not self.is_over:
            self._sent = self.vhost.submit(
                Publish(self.actor, publication, stored, flags, number, self._confirms)
            )

    def ack(self, first: int, last: int) -> None:
        """Acknowledge deliveries that follow each other, soon; their tags are above 0."""
        if first != self._last_ack + 1 or not self._first_ack:
            self.flush_acks()
            self._first_ack = first
        self._last_ack = last

    def flush_acks(self) -> None:
        """Tell the broker of the acks that wait."""
        first, last = self._first_ack, self._last_ack
        if first:
            self._first_ack = 0
            self._settle(first, last, ACK_METHOD, multiple=False, outcome="ack")

    def settle(
        self,
        tag: int,
        method: tuple[int, int],
        *,
        multiple: bool,
        outcome: SettleOutcome,
        last: int = 0,
    ) -> None:
        """Settle deliveries up to a tag, or from one to another, or only that one."""
        self.flush_acks()
        self._settle(tag, last, method, multiple=multiple, outcome=outcome)

    def _settle(
        self,
        tag: int,
        last: int,
        method: tuple[int, int],
        *,
        multiple: bool,
        outcome: SettleOutcome,
    ) -> None:
        if not self.is_over:
            self._sent = self.vhost.submit(
                Settle(self.actor, tag, last, multiple, outcome, method, self._refuse)
            )

    # -- order

    def is_settled(self) -> bool:
        """Whether all requests so far are applied; what came of them is heard then."""
        self.flush_acks()
        if self._sent > self.vhost.applied:
            return False
        self.vhost.flush()
        return self.vhost.is_told

    def then(self, done: Callable[[], None]) -> None:
        """Do something when all that was asked before is answered, unless the channel has closed.

        What the server does without the broker keeps its place so.
        """
        self.flush_acks()
        self.barrier(lambda: None if self.is_over else done())

    def barrier(self, done: Callable[[], None]) -> None:
        """Do something when all that was asked before is answered."""
        self._sent = self.vhost.submit(Then(done))

    def forget(self) -> None:
        """Wait for nothing any more."""
        self.is_over = True
        self._asked.clear()
        self._first_ack = 0
