"""What a death writes on a message: x-death, first and last death, the keys it goes on with.

Everything here is a function of the envelope, the queue's dead-letter settings and the second of
the death; nothing is looked up. Two record keepers, by compat: RabbitMQ 4.x keeps its own
records, newest first; 3.10 keeps them in the `x-death` header, trusts what clients put there, and
reverses the rest of the array at each update (R-DEATH-5, R-DEATH-8).
"""

from __future__ import annotations

from typing import Any

from streaming.broker.message import Death, DeathNote, Envelope
from topology.values import Timestamp

REJECTED = "rejected"
REASONS = (REJECTED, "expired", "maxlen", "delivery_limit")
_MOST_DEATHS = 1 << 62
"""A client's count beyond this is no AMQP integer, or would soon be none."""
X_DEATH = "x-death"
FIRST_DEATH = ("x-first-death-reason", "x-first-death-queue", "x-first-death-exchange")
LAST_DEATH = ("x-last-death-reason", "x-last-death-queue", "x-last-death-exchange")


def keys_without_bcc(envelope: Envelope) -> tuple[str, ...]:
    """R-DEATH-2 on 4.x: each BCC key takes one occurrence of itself away, the first.

    The BCC keys are remembered after a dead-letter routing key has taken their place as keys.
    """
    if not envelope.bcc:
        return envelope.routing_keys
    keys = list(envelope.routing_keys)
    for key in envelope.bcc:
        if key in keys:
            keys.remove(key)
    return tuple(keys)


def keys_with_cc_header(envelope: Envelope) -> tuple[str, ...]:
    """R-DEATH-2 on 3.10: the first key, then what the `CC` header says."""
    cc = (envelope.headers or {}).get("CC")
    more = [key for key in cc if isinstance(key, str)] if isinstance(cc, list) else []
    return (envelope.routing_keys[0], *more)


def died(
    envelope: Envelope,
    reason: str,
    queue: str,
    time_s: int,
    dead_letter_exchange: str | None,
    dead_letter_routing_key: str | None,
    compat: str,
) -> Envelope:
    """The envelope after a death (section 23, Die, steps 2 and 3).

    Without a dead-letter exchange the exchange and keys stay as they were: nobody will see them but
    the ledger.
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
    deaths = _recorded(known, reason, queue, time_s, envelope, keys)
    routing_keys = envelope.routing_keys
    if dead_letter_routing_key is not None and dead_letter_exchange is not None:
        routing_keys = (dead_letter_routing_key,)
        if compat == "3.10" and headers is not None and "CC" in headers:
            headers = {name: value for name, value in headers.items() if name != "CC"}
    return Envelope(
        envelope.exchange if dead_letter_exchange is None else dead_letter_exchange,
        routing_keys,
        envelope.bcc,
        envelope.properties,
        headers,
        None,
        None,
        envelope.priority,
        deaths,
        first,
        last,
        envelope.rerouted,
        envelope.foreign,
    )


def _recorded(
    known: tuple[Death, ...],
    reason: str,
    queue: str,
    time_s: int,
    envelope: Envelope,
    keys: tuple[str, ...],
) -> tuple[Death, ...]:
    """R-DEATH-3, R-DEATH-4: count the entry of this queue and reason, at the front."""
    for index, death in enumerate(known):
        if death.queue == queue and death.reason == reason:
            again = Death(
                death.count + 1,
                death.reason,
                death.queue,
                death.time_s,
                death.exchange,
                death.routing_keys,
                death.original_expiration,
                death.given,
            )
            return (again, *known[:index], *known[index + 1 :])
    new = Death(1, reason, queue, time_s, envelope.exchange, keys, envelope.expiration)
    return (new, *known)


def _known_3_10(envelope: Envelope) -> tuple[tuple[Death, ...], bool]:
    """The entries before this death, misordered as 3.10 does, and whether a client gave them."""
    deaths, trusted = envelope.deaths, False
    if not deaths and X_DEATH in (envelope.headers or {}):
        trusted = True
        given = (envelope.headers or {})[X_DEATH]
        if isinstance(given, list):
            deaths = tuple(_given(entry) for entry in given if isinstance(entry, dict))
    if len(deaths) < 2:  # noqa: PLR2004 - a single entry is not touched
        return deaths, trusted
    reversed_once: dict[tuple[str, str], Death] = {}
    for death in deaths:
        reversed_once.setdefault((death.queue, death.reason), death)
    return tuple(reversed(reversed_once.values())), trusted


def _given(entry: dict[str, Any]) -> Death:
    """An x-death entry from a client, kept whole."""
    count = entry.get("count")
    return Death(
        count if type(count) is int and abs(count) <= _MOST_DEATHS else 0,
        str(entry.get("reason", "")),
        str(entry.get("queue", "")),
        0,
        "",
        (),
        None,
        entry,
    )


def is_cycle(deaths: tuple[Death, ...], target: str) -> bool:
    """R-CYC-3: the target died before, and nothing was rejected since then."""
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
    """The headers that a headers exchange looks at: AMQP's win over the Kafka record's own."""
    headers = headers_of(envelope)
    if not envelope.foreign:
        return headers
    return {**envelope.foreign, **(headers or {})}


def headers_of(envelope: Envelope) -> dict[str, Any] | None:
    """The headers as a consumer (or a headers exchange) sees them (R-DEATH-7, R-HDR-9)."""
    if not envelope.deaths:
        return envelope.headers
    headers = dict(envelope.headers or {})
    headers[X_DEATH] = x_death(envelope.deaths)
    if envelope.first_death is not None:
        headers.update(zip(FIRST_DEATH, envelope.first_death, strict=True))
    if envelope.last_death is not None:
        headers.update(zip(LAST_DEATH, envelope.last_death, strict=True))
    return headers
