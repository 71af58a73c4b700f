"""Is anything lost? The balance of all queues as one sum, in the words of a sentence."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from streaming.console.shown import instant
from streaming.queries.audit.balance import Balance, QueueBalance
from streaming.queries.gone import Gone, Purged
from topology.sentences import Sentence, say, say_count

_TAKEN = ("acked", "consumed")
_REMOVED = ("purged", "deleted", "discarded")
_SENT_ON = ("rerouted", "redriven")


class Drawn(NamedTuple):
    """A balance, with what is gone.

    Attributes:
        at: the instant of its last batch; None: there is none.
    """

    balance: Balance
    gone: Gone
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


class Way(NamedTuple):
    """One way in which messages are gone.

    Attributes:
        what: in words, with how many.
        path, about: the page that shows which, and its parameters; empty: none does.
        is_bad: whether nobody wanted it.
    """

    what: Sentence
    path: str = ""
    about: Mapping[str, str] = {}
    is_bad: bool = False


def ways_of(drawn: Drawn) -> list[Way]:
    """The ways in which messages are gone: lost, dropped, purged or deleted with their queue."""
    return list(_ways(drawn))


def _ways(drawn: Drawn) -> Iterator[Way]:
    gone = drawn.gone
    if gone.lost:
        what = say("%(count)s lost", count=gone.lost)
        yield Way(what, "/search", {"end": "lost"}, is_bad=True)
    for reason, count in gone.dropped.items():
        why = say("full") if reason == "maxlen" else say(reason)
        what = say("%(count)s dropped (%(why)s)", count=count, why=why)
        yield Way(what, "/search", {"reason": reason, "end": "dropped"})
    ends = [row.endings for row in drawn.balance.queues]
    unknown = sum(one.get("purged", 0) for one in ends)
    for one in gone.purged:
        unknown -= one.count
        about = {"action": "purges", **({"user": one.user} if one.user else {})}
        yield Way(_purged(one), "/audit", about)
    if unknown > 0:
        yield Way(say("%(count)s purged, the tables no longer know by whom", count=unknown))
    deleted = sum(one.get("deleted", 0) for one in ends)
    if deleted:
        yield Way(
            say_count(
                "%(count)s deleted with its queue", "%(count)s deleted with their queue", deleted
            )
        )


def _purged(one: Purged) -> Sentence:
    user, at = one.user or say("the operator"), instant(one.at)[:16]
    if one.queue is None:
        return say(
            "%(count)s purged from %(queues)s queues by %(user)s, last at %(at)s",
            count=one.count,
            queues=one.queues,
            user=user,
            at=at,
        )
    return say(
        "%(count)s purged from %(queue)s by %(user)s, %(at)s",
        count=one.count,
        queue=one.queue,
        user=user,
        at=at,
    )


def entered_none(balance: Balance) -> int:
    """The messages that reached no queue when they were published, as their publishers know."""
    of_vhosts = (one.unroutable + one.returned + one.publish_errors for one in balance.vhosts)
    return sum(of_vhosts) + sum(row.refused for row in balance.queues)


_NOTHING = Account(*(0 for _ in Account._fields))
