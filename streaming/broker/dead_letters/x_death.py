"""What a death writes on a message: x-death, first and last death, routing keys.

Everything here is a function of the envelope, the queue's dead-letter settings and the second of
the death. The two versions differ: RabbitMQ 4.x keeps its own records, newest first; 3.10 keeps
them in the `x-death` header, trusts what clients put there, and reverses the rest of the array at
each update (R-DEATH-5, R-DEATH-8).
"""

from typing import Any

import msgspec

from streaming.broker.message import Death, DeathNote, Envelope
from topology.values import Timestamp

REJECTED = "rejected"
_MAX_COUNT = 1 << 62
"""A client's count beyond this is not an AMQP integer, or soon would not be."""
X_DEATH = "x-death"
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
    cc = (envelope.headers or {}).get("CC")
    more = [key for key in cc if isinstance(key, str)] if isinstance(cc, list) else []
    return (envelope.routing_keys[0], *more)


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
    headers = envelope.headers
    if compat == "3.10":
        keys = keys_with_cc_header(envelope)
        known, trusted = _known_3_10(envelope)
        first = envelope.first_death
        if first is None and not trusted and not envelope.deaths:
            first = note
        last = None
        if trusted:
            headers = {name: value for name, value in (headers or {}).items() if name != X_DEATH}
    else:
        keys = keys_without_bcc(envelope)
        known = envelope.deaths
        first = envelope.first_death or note
        last = note
    routing_keys = envelope.routing_keys
    if dead_letter_routing_key is not None and dead_letter_exchange is not None:
        routing_keys = (dead_letter_routing_key,)
        if compat == "3.10" and headers is not None and "CC" in headers:
            headers = {name: value for name, value in headers.items() if name != "CC"}
    return envelope.replace(
        exchange=envelope.exchange if dead_letter_exchange is None else dead_letter_exchange,
        routing_keys=routing_keys,
        headers=headers,
        expiration=None,
        ttl_ms=None,
        deaths=_recorded(known, reason, queue, time_s, envelope, keys),
        first_death=first,
        last_death=last,
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


def _known_3_10(envelope: Envelope) -> tuple[tuple[Death, ...], bool]:
    """The entries before this death, in the order of 3.10, and whether a client supplied them."""
    deaths, trusted = envelope.deaths, False
    if not deaths and X_DEATH in (envelope.headers or {}):
        trusted = True
        given = (envelope.headers or {})[X_DEATH]
        if isinstance(given, list):
            deaths = tuple(_given(entry) for entry in given if isinstance(entry, dict))
    if len(deaths) < 2:  # noqa: PLR2004 - a single entry stays as it is
        return deaths, trusted
    reversed_once: dict[tuple[str, str], Death] = {}
    for death in deaths:
        reversed_once.setdefault((death.queue, death.reason), death)
    return tuple(reversed(reversed_once.values())), trusted


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


def matching_headers(envelope: Envelope) -> dict[str, Any] | None:
    """The headers that headers exchanges match on: AMQP's take precedence over Kafka's."""
    headers = headers_of(envelope)
    if not envelope.kafka_headers:
        return headers
    return {**envelope.kafka_headers, **(headers or {})}


def headers_of(envelope: Envelope) -> dict[str, Any] | None:
    """The headers that a consumer (or a headers exchange) sees (R-DEATH-7, R-HDR-9)."""
    if not envelope.deaths:
        return envelope.headers
    headers = dict(envelope.headers or {})
    headers[X_DEATH] = x_death(envelope.deaths)
    if envelope.first_death is not None:
        headers.update(zip(FIRST_DEATH, envelope.first_death, strict=True))
    if envelope.last_death is not None:
        headers.update(zip(LAST_DEATH, envelope.last_death, strict=True))
    return headers
