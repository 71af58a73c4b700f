"""What a death writes on a message: x-death, first and last death, routing keys.

Everything here is a function of the envelope, the queue's dead-letter settings and the second of
the death. The two versions differ: RabbitMQ 4.x keeps its own records, newest first; 3.10 keeps
them in the `x-death` header, trusts what clients put there, and reverses the rest of the array at
each update (R-DEATH-5, R-DEATH-8).
"""

from typing import Any

import msgspec

from streaming.broker.message import X_DEATH, Death, DeathNote, Envelope, PublishedHeaders
from topology.values import Timestamp

REJECTED = "rejected"
_MAX_COUNT = 1 << 62
"""A client's count beyond this is not an AMQP integer, or soon would not be."""
FIRST_DEATH = ("x-first-death-reason", "x-first-death-queue", "x-first-death-exchange")
LAST_DEATH = ("x-last-death-reason", "x-last-death-queue", "x-last-death-exchange")


def keys_without_bcc(envelope: Envelope) -> tuple[str, ...]:
    """The keys of a death record on 4.x: each BCC key removes its first occurrence (R-DEATH-2).

    The BCC keys are still known after a dead-letter routing key has replaced the keys.
    """
    if not envelope.bcc:
        return envelope.routing_keys
    keys = list(envelope.routing_keys)
    for key in envelope.bcc:
        if key in keys:
            keys.remove(key)
    return tuple(keys)


def keys_with_cc_header(envelope: Envelope) -> tuple[str, ...]:
    """The keys of a death record on 3.10: the first key, then the `CC` header's (R-DEATH-2)."""
    return (envelope.routing_keys[0], *(envelope.cc or ()))


def envelope_after_death(
    envelope: Envelope,
    reason: str,
    queue: str,
    time_s: int,
    dead_letter_exchange: str | None,
    dead_letter_routing_key: str | None,
    compat: str,
) -> Envelope:
    """The envelope after a death (section 23, Die, steps 2 and 3).

    Without a dead-letter exchange the exchange and keys stay: only the ledger will see them.
    """
    note = DeathNote(reason, queue, envelope.exchange)
    given, dropped, cc = envelope.given_x_death, envelope.dropped, envelope.cc
    if compat == "3.10":
        keys = keys_with_cc_header(envelope)
        known = _known_3_10(envelope)
        first = envelope.first_death
        if first is None and given is None and not envelope.deaths:
            first = note
        last = None
        if given is not None:
            given, dropped = None, (*dropped, X_DEATH)
    else:
        keys = keys_without_bcc(envelope)
        known = envelope.deaths
        first = envelope.first_death or note
        last = note
    routing_keys = envelope.routing_keys
    if dead_letter_routing_key is not None and dead_letter_exchange is not None:
        routing_keys = (dead_letter_routing_key,)
        if compat == "3.10" and cc is not None:
            cc, dropped = None, (*dropped, "CC")
    return Envelope(  # `replace` takes three times as long, for nearly every death
        envelope.exchange if dead_letter_exchange is None else dead_letter_exchange,
        routing_keys,
        envelope.bcc,
        cc,
        priority=envelope.priority,
        deaths=_recorded(known, reason, queue, time_s, envelope, keys),
        first_death=first,
        last_death=last,
        rerouted=envelope.rerouted,
        given_x_death=given,
        dropped=dropped,
        added=envelope.added,
    )


def _recorded(
    known: tuple[Death, ...],
    reason: str,
    queue: str,
    time_s: int,
    envelope: Envelope,
    keys: tuple[str, ...],
) -> tuple[Death, ...]:
    """Increment the entry of this queue and reason, or add one; at the front (R-DEATH-3, 4)."""
    for index, death in enumerate(known):
        if death.queue == queue and death.reason == reason:
            again = msgspec.structs.replace(death, count=death.count + 1)
            return (again, *known[:index], *known[index + 1 :])
    new = Death(1, reason, queue, time_s, envelope.exchange, keys, envelope.expiration)
    return (new, *known)


def _known_3_10(envelope: Envelope) -> tuple[Death, ...]:
    """The entries before this death, in the order of 3.10."""
    deaths = envelope.deaths
    if envelope.given_x_death is not None:
        deaths = tuple(map(_given, envelope.given_x_death))
    if len(deaths) < 2:  # noqa: PLR2004 - a single entry stays as it is
        return deaths
    reversed_once: dict[tuple[str, str], Death] = {}
    for death in deaths:
        reversed_once.setdefault((death.queue, death.reason), death)
    return tuple(reversed(reversed_once.values()))


def _given(entry: dict[str, Any]) -> Death:
    """An x-death entry that a client supplied, kept whole."""
    count = entry.get("count")
    return Death(
        count if type(count) is int and abs(count) <= _MAX_COUNT else 0,
        str(entry.get("reason", "")),
        str(entry.get("queue", "")),
        0,
        "",
        (),
        None,
        entry,
    )


def is_cycle(deaths: tuple[Death, ...], target: str) -> bool:
    """Whether the copy died in the target before and was not rejected since (R-CYC-3)."""
    for death in deaths:
        if death.reason == REJECTED:
            return False
        if death.queue == target:
            return True
    return False


def x_death(deaths: tuple[Death, ...]) -> list[Any]:
    """The `x-death` header."""
    entries: list[Any] = []
    for death in deaths:
        if death.given is not None:
            entries.append({**death.given, "count": death.count})
            continue
        entry: dict[str, Any] = {
            "count": death.count,
            "reason": death.reason,
            "queue": death.queue,
            "time": Timestamp(death.time_s),
            "exchange": death.exchange,
            "routing-keys": list(death.routing_keys),
        }
        if death.original_expiration is not None:
            entry["original-expiration"] = death.original_expiration
        entries.append(entry)
    return entries


def death_headers(envelope: Envelope) -> dict[str, Any]:
    """The headers that a message was given since its publish: `added`, and R-DEATH-7's."""
    headers = dict(envelope.added or {})
    if not envelope.deaths:
        return headers
    headers[X_DEATH] = x_death(envelope.deaths)
    if envelope.first_death is not None:
        headers.update(zip(FIRST_DEATH, envelope.first_death, strict=True))
    if envelope.last_death is not None:
        headers.update(zip(LAST_DEATH, envelope.last_death, strict=True))
    return headers


def headers_after(envelope: Envelope, published: dict[str, Any] | None) -> dict[str, Any] | None:
    """The headers without those of deaths: as published, but for those dropped and added."""
    if published is not None and envelope.dropped:
        dropped = envelope.dropped
        published = {name: value for name, value in published.items() if name not in dropped}
    return {**(published or {}), **envelope.added} if envelope.added else published


def delivered_headers(
    envelope: Envelope, published: dict[str, Any] | None
) -> dict[str, Any] | None:
    """The headers that a consumer sees (R-DEATH-7, R-HDR-9)."""
    headers = headers_after(envelope, published)
    return {**(headers or {}), **death_headers(envelope)} if envelope.deaths else headers


def matching_headers(envelope: Envelope, published: PublishedHeaders) -> dict[str, Any] | None:
    """The headers that headers exchanges match on: AMQP's take precedence over Kafka's."""
    headers = delivered_headers(envelope, published.headers)
    if not published.kafka_headers:
        return headers
    return {**published.kafka_headers, **(headers or {})}
