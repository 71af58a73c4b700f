"""Is anything lost? The balance of all queues as one sum, in the words of a sentence."""

from typing import NamedTuple

from streaming.queries.audit.balance import Balance, QueueBalance
from streaming.queries.death_rates import Losses

_TAKEN = ("acked", "consumed")
_REMOVED = ("purged", "deleted", "discarded")
_SENT_ON = ("rerouted", "redriven")


class Drawn(NamedTuple):
    """A balance, with what is lost.

    Attributes:
        at: the instant of its last batch; None: there is none.
    """

    balance: Balance
    losses: Losses
    at: str | None


class Account(NamedTuple):
    """Where the copies of a queue, or of all, went: `published + again` is the sum of the rest.

    Attributes:
        again: copies that came from a death, a redrive or a reroute.
        there: in the queues now.
        taken: acknowledged, or delivered without the need to be.
        died: for whatever reason.
        sent_on: taken out by a redrive, or rerouted.
        removed: purged, discarded, or deleted with their queue.
    """

    published: int
    again: int
    there: int
    taken: int
    died: int
    sent_on: int
    removed: int


def account_of(row: QueueBalance) -> Account:
    """The account of one queue."""
    ends = dict(row.endings)
    taken, removed, sent_on = (
        sum(ends.pop(name, 0) for name in names) for names in (_TAKEN, _REMOVED, _SENT_ON)
    )
    there = row.ready + row.unacked + row.held
    died = sum(ends.values())
    return Account(row.published, row.dead_lettered, there, taken, died, sent_on, removed)


def account_of_all(balance: Balance) -> Account:
    """The account of all queues together."""
    rows = [account_of(row) for row in balance.queues]
    return Account(*(sum(column) for column in zip(*rows, strict=True))) if rows else _NOTHING


def entered_none(balance: Balance) -> int:
    """The messages that reached no queue when they were published, as their publishers know."""
    of_vhosts = (one.unroutable + one.returned + one.publish_errors for one in balance.vhosts)
    return sum(of_vhosts) + sum(row.refused for row in balance.queues)


_NOTHING = Account(*(0 for _ in Account._fields))
