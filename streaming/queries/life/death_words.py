"""Why messages died, in words: one copy, or what died in a queue for one reason.

expired, TTL of the queue 1,500 ms  -->  TTL of 1,500 ms, and no consumer took it in time
maxlen, 4,000/s in and 200/s out    -->  limit of 1,000 reached, 4,000/s in, 200/s out
"""

from collections.abc import Sequence
from typing import NamedTuple

from topology.policies import QueueSettings
from topology.sentences import Sentence, say, say_count


class Limits(NamedTuple):
    """The settings of a queue at an instant; None: it was not declared.

    Attributes:
        are_of_now: whether those at that instant are not known.
    """

    settings: QueueSettings | None
    are_of_now: bool = False


def of_a_queue(
    reason: str,
    limits: Limits,
    users: Sequence[str | None],
    rates: tuple[float, float] | None,
) -> str:
    """Why messages died in a queue.

    Args:
        users: who rejected them, the most first; None: the operator.
        rates: copies that entered the queue, and that consumers took, per second; if known.
    """
    settings = limits.settings
    match reason:
        case "rejected":
            return _rejected_by(users)
        case "expired":
            ttl = None if settings is None else settings.message_ttl_ms
            which: str = say("the TTL of the message")
            if ttl is not None:
                which = _as_known(say("TTL of %(ms)s ms", ms=ttl), limits)
            return say("%(ttl)s, and no consumer took it in time", ttl=which)
        case "maxlen":
            limit = _as_known(_limit(settings), limits)
            if rates is None:
                return say("%(limit)s reached", limit=limit)
            came, went = map(_a_second, rates)
            return say(
                "%(limit)s reached, %(came)s/s in, %(went)s/s out",
                limit=limit,
                came=came,
                went=went,
            )
        case "delivery_limit":
            most = None if settings is None else settings.delivery_limit
            if most is None:
                return say("returned more often than the delivery limit")
            number = _as_known(say("%(count)s", count=most), limits)
            return say("returned more often than the delivery limit of %(number)s", number=number)
        case "orphaned":
            return say("its queue was deleted")
    return reason


def _rejected_by(users: Sequence[str | None]) -> str:
    if not users:
        return say("rejected by a consumer")
    first = users[0] or say("the operator")
    if len(users) == 1:
        return say("rejected by %(user)s", user=first)
    return say_count(
        "rejected by %(user)s and %(count)s other",
        "rejected by %(user)s and %(count)s others",
        len(users) - 1,
        user=first,
    )


def _as_known(limit: str, limits: Limits) -> str:
    return say("%(limit)s (today's limit)", limit=limit) if limits.are_of_now else limit


def _limit(settings: QueueSettings | None) -> str:
    if settings is not None and settings.max_length is not None:
        return say("limit of %(count)s", count=settings.max_length)
    if settings is not None and settings.max_length_bytes is not None:
        return say("limit of %(count)s bytes", count=settings.max_length_bytes)
    return say("the queue's limit was")


def _a_second(rate: float) -> float:
    """A rate that is worth reading: whole numbers, or hundredths."""
    return round(rate) if rate >= 1 or not rate else max(round(rate, 2), 0.01)


def of_a_copy(
    reason: str | None,
    ttl_ms: int | None,
    deliveries: Sequence[tuple[str | None, str | None]],
    *,
    is_whole: bool,
) -> Sentence | None:
    """Why one copy died; None if it did not.

    Args:
        ttl_ms: how long it might stay in its queue when it entered, if known.
        deliveries: user and channel of each, in order.
        is_whole: whether these are all; retention may have removed some.
    """
    match reason:
        case "expired":
            ttl = say("its TTL ended") if ttl_ms is None else say("TTL %(ms)s ms", ms=ttl_ms)
            if not is_whole:
                return ttl
            then = _returned(len(deliveries)) if deliveries else say("no consumer took it")
            return say("%(ttl)s, %(then)s", ttl=ttl, then=then)
        case "rejected":
            user, channel = deliveries[-1] if deliveries else (say("a consumer"), None)
            who = user or say("the operator")
            if not channel:
                return say("%(user)s rejected it", user=who)
            return say("%(user)s rejected it on channel %(channel)s", user=who, channel=channel)
        case "maxlen":
            return say("its queue was full")
        case "delivery_limit":
            return say(
                "%(returned)s: more often than the delivery limit of its queue allows",
                returned=_returned(len(deliveries)),
            )
    return None


def _returned(times: int) -> Sentence:
    return say_count(
        "it was delivered %(count)s time and returned",
        "it was delivered %(count)s times and returned",
        times,
    )
