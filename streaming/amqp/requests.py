"""What one channel asks of its vhost: commands, each with what to do with its answer; and acks.

Single acks of deliveries in a row go to the broker together, as a range. Everything else that the
channel does flushes them first, so the order of the client holds.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from streaming.amqp.errors import AmqpError
from streaming.amqp.stored import Stored
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.commands import Command, SettleOutcome
from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.broker.outbound import AnswerOut
from topology.refusals import Refusal

Answered = Callable[[dict[str, Any]], None]
"""What to do with the result of a command."""

ACK_METHOD = (60, 80)


class RefusedError(AmqpError):
    """The broker refused something; it has closed the channel already.

    Attributes:
        method: class and number of the method that it refused.
    """

    def __init__(self, refusal: Refusal, method: tuple[int, int]) -> None:
        super().__init__(refusal.code, refusal.text)
        self.method = method


def nothing(_result: dict[str, Any]) -> None:
    """Answer nothing: the client asked for no answer."""


class Requests:
    """The requests of one channel to its vhost."""

    def __init__(self, vhost: OpenVhost, actor: Actor) -> None:
        self.vhost = vhost
        self.actor = actor
        self._asked: deque[tuple[tuple[int, int], Answered]] = deque()
        self._first_ack = 0
        self._last_ack = 0

    def ask(self, method: tuple[int, int], command: Command, done: Answered) -> None:
        """Carry out a command; its answer goes to `done`.

        Raises:
            RefusedError: an ack before it was refused; `answered` raises what the command was.
        """
        self.flush_acks()
        self._asked.append((method, done))
        self.vhost.command(self.actor, command)
        self.vhost.flush()

    @property
    def waits(self) -> bool:
        """Whether a command is not answered yet."""
        return bool(self._asked)

    def answered(self, out: AnswerOut) -> None:
        """Take the answer to the oldest command that waits for one.

        Raises:
            RefusedError: the command was refused.
        """
        method, done = self._asked.popleft()
        if out.refusal is not None:
            raise RefusedError(out.refusal, method)
        done(out.result)

    def publish(self, publication: Publication, stored: Stored, flags: int) -> int:
        """Publish a message; return its offset."""
        self.flush_acks()
        return self.vhost.publish(self.actor, publication, stored, flags)

    def ack(self, tag: int) -> None:
        """Acknowledge one delivery, soon.

        Raises:
            RefusedError: an ack before it was refused, or the tag is 0: 406.
        """
        if tag == self._last_ack + 1 and self._first_ack:
            self._last_ack = tag
            return
        self.flush_acks()
        if not tag:  # 0 marks that none waits
            self._settle(tag, 0, ACK_METHOD, multiple=False, outcome="ack")
        self._first_ack = self._last_ack = tag

    def flush_acks(self) -> None:
        """Tell the broker of the acks that wait.

        Raises:
            RefusedError: no such delivery is unacknowledged: 406.
        """
        first, last = self._first_ack, self._last_ack
        if first:
            self._first_ack = 0
            self._settle(first, last, ACK_METHOD, multiple=False, outcome="ack")

    def settle(
        self, tag: int, method: tuple[int, int], *, multiple: bool, outcome: SettleOutcome
    ) -> None:
        """Settle deliveries up to a tag, or only that one.

        Raises:
            RefusedError: no such delivery is unacknowledged: 406.
        """
        self.flush_acks()
        self._settle(tag, 0, method, multiple=multiple, outcome=outcome)

    def _settle(
        self,
        tag: int,
        last: int,
        method: tuple[int, int],
        *,
        multiple: bool,
        outcome: SettleOutcome,
    ) -> None:
        refusal = self.vhost.settle(self.actor, tag, last, multiple=multiple, outcome=outcome)
        if refusal is not None:
            raise RefusedError(refusal, method)

    def forget(self) -> None:
        """Wait for nothing any more."""
        self._asked.clear()
        self._first_ack = 0
