"""What a redrive writes on a letter: exchange and keys, expiration, x-death, marks, an edit.

Only this module knows how the marks `x-redrive-id` and `x-redrive-count` are kept on an envelope.
"""

from typing import Any, Final

import msgspec

from streaming.broker.message import (
    BROKER_HEADERS,
    NO_FILE,
    Copy,
    Death,
    DeathNote,
    Envelope,
    Message,
)
from streaming.broker.redrive_letters import Edit, Letter, RedriveOptions, StoredLetter, Target
from streaming.broker.reject_reasons import X_EXCEPTION_MESSAGE
from topology.validation.arguments import MAX_TTL_MS
from topology.values import table_from_json

X_REDRIVE_ID: Final = "x-redrive-id"
X_REDRIVE_COUNT: Final = "x-redrive-count"

_MARKS: Final = (X_REDRIVE_ID, X_REDRIVE_COUNT)

_MAX_COUNT: Final = 1 << 31
_DIGITS: Final = 12


def redrive_count(envelope: Envelope) -> int:
    """How often the letter was redriven already."""
    count = (envelope.added or {}).get(X_REDRIVE_COUNT, 0)
    return count if type(count) is int and 0 <= count < _MAX_COUNT else 0


def redriven_envelope(
    envelope: Envelope,
    target: Target,
    redrive_id: str,
    options: RedriveOptions,
    published_ms: int,
    now_ms: int,
    edit: Edit | None = None,
) -> Envelope:
    """The envelope of a letter as it enters its target."""
    if options.action == "restore":
        return envelope.replace(exchange=target.exchange, routing_keys=target.routing_keys)
    count = redrive_count(envelope) + 1
    added = {**(envelope.added or {}), X_REDRIVE_ID: redrive_id, X_REDRIVE_COUNT: count}
    if options.x_death == "clear" or edit is not None:  # an edited version has it if it is to stay
        added.pop(X_EXCEPTION_MESSAGE, None)
    changes: dict[str, Any] = {"added": added, "expiration": None, "ttl_ms": None}
    expiration = _first_expiration(envelope)
    if options.expiration != "drop" and expiration is not None:
        ttl_ms = int(expiration)
        if options.expiration == "keep":
            ttl_ms = max(0, min(ttl_ms, published_ms + ttl_ms - now_ms))
        changes.update(expiration=expiration, ttl_ms=ttl_ms)
    if options.x_death == "clear":
        changes.update(deaths=(), first_death=None, last_death=None)
    if edit is not None and edit.priority is not None:
        changes["priority"] = edit.priority
    if edit is not None and edit.expiration is not None:
        changes.update(
            expiration=edit.expiration or None,
            ttl_ms=int(edit.expiration) if edit.expiration else None,
        )
    return envelope.replace(
        exchange=target.exchange, routing_keys=target.routing_keys, rerouted=False, **changes
    )


def _first_expiration(envelope: Envelope) -> str | None:
    """The expiration that the publisher gave: the first death removed it."""
    given = [death.original_expiration for death in envelope.deaths]
    known = (one for one in reversed(given) if one is not None and is_expiration(one))
    return next(known, envelope.expiration)


def is_expiration(text: str) -> bool:
    """Whether a text is the canonical expiration of a message."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) <= MAX_TTL_MS


def stored_headers(stored: StoredLetter) -> dict[str, Any] | None:
    """The headers of a stored letter.

    Raises:
        ValueError: they are not typed JSON.
    """
    if stored.headers is None:
        return None
    try:
        document = msgspec.json.decode(stored.headers)
    except RecursionError:
        raise ValueError("too deeply nested") from None
    if not isinstance(document, dict):
        raise ValueError("headers: expected an object")  # noqa: TRY004 - the caller reports both
    return table_from_json(document)


def stored_message(stored: StoredLetter) -> Message:
    """The message of a stored letter."""
    topic_number, partition, offset = stored.message
    return Message(topic_number, partition, offset, NO_FILE, 0, stored.size)


def stored_copy(letter: Letter, stored: StoredLetter, published: dict[str, Any] | None) -> Copy:
    """The copy that a stored letter once was.

    Args:
        published: the headers as the client published them; marks among them are no marks, and a
            cause among them is none.

    Its properties and headers are in its row of `messages`; a header that the broker looks at and
    that the letter does not have any more stays dropped.
    """
    target = letter.target
    assert target is not None, "a stored letter has a target"
    headers = stored_headers(stored) or {}
    published = published or {}
    cc = headers.get("CC")
    added: dict[str, Any] = {}
    if headers.get(X_REDRIVE_ID) != published.get(X_REDRIVE_ID):
        added = {name: headers[name] for name in _MARKS if name in headers}
    cause = headers.get(X_EXCEPTION_MESSAGE)
    if cause is not None and cause != published.get(X_EXCEPTION_MESSAGE):
        added[X_EXCEPTION_MESSAGE] = cause
    envelope = Envelope(
        target.exchange,
        target.routing_keys,
        cc=tuple(key for key in cc if isinstance(key, str)) if isinstance(cc, list) else None,
        priority=stored.priority,
        deaths=tuple(Death(*death) for death in stored.deaths),
        first_death=None if stored.first_death is None else DeathNote(*stored.first_death),
        last_death=None if stored.last_death is None else DeathNote(*stored.last_death),
        dropped=tuple(name for name in BROKER_HEADERS if name not in headers),
        added=added or None,
    )
    return Copy(letter.copy_id, stored_message(stored), envelope, -1, 0, -1)
