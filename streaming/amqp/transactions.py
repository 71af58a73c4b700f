"""What a channel has done in a transaction that is neither committed nor rolled back (R-TX).

A commit sends the publishes first, in their order, and settles then. Settlements in a row that do
the same are one, in the order of the deliveries. What is published counts as memory until then, and
one transaction may not take much.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from streaming.amqp import methods as m
from streaming.amqp.errors import PRECONDITION_FAILED, error
from streaming.amqp.requests import Requests
from streaming.amqp.stored import Stored, taken_by
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.commands import SettleOutcome
from streaming.broker.message import CONFIRM, Publication
from streaming.broker.outbound import ConfirmOut

MAX_BYTES: Final = 256 << 20
"""What the publishes of one transaction may take in memory."""


class Transaction:
    """The transactions of one channel, one after the other.

    Attributes:
        settled: the tags of deliveries that will be settled.
    """

    def __init__(self, requests: Requests, vhost: OpenVhost) -> None:
        self.settled: set[int] = set()
        self._requests = requests
        self._vhost = vhost
        self._publishes: list[Callable[[], None]] = []
        self._bytes = 0
        self._settlements: list[tuple[SettleOutcome, list[int]]] = []
        self._is_partial = False

    @property
    def only_settles(self) -> bool:
        """Whether nothing was published."""
        return not self._publishes

    @property
    def messages(self) -> int:
        """How many publishes wait for the commit."""
        return len(self._publishes)

    @property
    def acks(self) -> int:
        """How many deliveries wait to be acked; RabbitMQ counts no others."""
        return sum(len(tags) for outcome, tags in self._settlements if outcome == "ack")

    def publish(self, publication: Publication, stored: Stored, flags: int) -> None:
        """Keep a publish that was checked and routed.

        Raises:
            AmqpError: 406, the transaction would become too large.
        """
        step = partial(self._requests.publish, publication, stored, flags | CONFIRM, 0)
        self.then(step, taken_by(stored))

    def then(self, step: Callable[[], None], size: int) -> None:
        """Keep something that happens in the place of a publish; it takes so many bytes.

        Raises:
            AmqpError: 406, the transaction would become too large.
        """
        if self._bytes + size > MAX_BYTES:
            text = f"publishes of a transaction take more than {MAX_BYTES} bytes"
            raise error(PRECONDITION_FAILED, text)
        self._bytes += size
        self._vhost.uncommitted_bytes += size
        self._publishes.append(step)

    def settle(self, tags: Iterable[int], outcome: SettleOutcome) -> None:
        """Keep a settlement of deliveries that are unacked."""
        self.settled.update(tags)
        if not self._settlements or self._settlements[-1][0] != outcome:
            self._settlements.append((outcome, []))
        self._settlements[-1][1].extend(tags)

    def commit(self, done: Callable[[bool], None]) -> None:
        """Do it; `done` hears whether all that was published has arrived in all of its queues."""
        publishes, settlements = self._publishes, self._settlements
        self.roll_back()
        self._is_partial = False
        for step in publishes:
            step()
        for outcome, tags in settlements:
            for first, last in _runs(sorted(tags)):
                self._requests.settle(
                    first, m.TxCommit.ids, multiple=False, outcome=outcome, last=last
                )
        # not if the channel closes meanwhile
        self._requests.then(lambda: done(not self._is_partial))

    def roll_back(self) -> None:
        """Forget it."""
        self._vhost.uncommitted_bytes -= self._bytes
        self._bytes = 0
        self._publishes, self._settlements = [], []
        self.settled = set()

    def heard(self, out: ConfirmOut) -> None:
        """Take what the broker says of a message."""
        self._is_partial |= not out.ack


def _runs(tags: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of those that follow each other."""
    first = 0
    for at, tag in enumerate(tags):
        if at + 1 == len(tags) or tags[at + 1] != tag + 1:
            yield tags[first], tag
            first = at + 1
