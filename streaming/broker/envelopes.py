"""What the broker reads of a publication: keys, `CC` and `BCC`, expiration and priority.

The result is the envelope with which the message enters its queues. Publications that are alike
share one.
"""

import re
from typing import Final

from streaming.broker.message import MAX_PRIORITY, X_DEATH, Envelope, Publication
from streaming.broker.state.pages import shared
from topology.erlang_terms import erlang_string
from topology.refusals import Refusal, precondition_failed
from topology.validation.arguments import MAX_TTL_MS
from topology.values import amqp_type

MAX_KNOWN = 50_000
"""Envelopes that publications share."""

_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]+)(.*)", re.DOTALL)
_MAX_DIGITS: Final = len(str(MAX_TTL_MS))
_LINE: Final = 80

_envelopes: dict[tuple[str, str, str | None, int | None, str], Envelope] = {}


def shared_envelope(publication: Publication, compat: str) -> tuple[Envelope, Refusal | None]:
    """The envelope of a publication, which equal ones share, and why it is malformed."""
    if publication.headers is not None:
        envelope, malformed = envelope_of(publication, compat)
        return (envelope if malformed else shared(envelope)), malformed
    key = (
        publication.exchange,
        publication.routing_key,
        publication.expiration,
        publication.priority,
        compat,
    )
    known = _envelopes.get(key)
    if known is not None:
        return known, None
    envelope, malformed = envelope_of(publication, compat)
    if malformed is None:
        envelope = shared(envelope)
        if len(_envelopes) >= MAX_KNOWN:
            _envelopes.clear()
        _envelopes[key] = envelope
    return envelope, malformed


def published_envelope(publication: Publication, compat: str) -> Envelope:
    """The envelope of a publication that was accepted."""
    return shared_envelope(publication, compat)[0]


def envelope_of(publication: Publication, compat: str) -> tuple[Envelope, Refusal | None]:
    """The envelope of a publication, and why it is malformed (R-TTL-6, R-CC-4)."""
    refusal = None
    expiration = publication.expiration
    ttl_ms = None
    if expiration is not None:
        ttl_ms, reason = _expiration(expiration)
        if reason:
            refusal = precondition_failed(_wrapped(f"invalid expiration '{expiration}': ", reason))
        elif compat != "3.10":
            expiration = str(ttl_ms)
    headers = publication.headers or {}
    keys: dict[str, tuple[str, ...]] = {}
    for header in ("CC", "BCC"):
        value = headers.get(header, [])
        if not isinstance(value, list):
            fault = f'{{unacceptable_type_in_header,"{header}",{amqp_type(value)}}}'
            refusal = refusal or precondition_failed(f"invalid message: {fault}")
        elif header in headers:
            keys[header] = tuple(key for key in value if isinstance(key, str))
    cc, bcc = keys.get("CC"), keys.get("BCC", ())
    given = None
    if compat == "3.10" and X_DEATH in headers:
        entries = headers[X_DEATH] if isinstance(headers[X_DEATH], list) else []
        given = [entry for entry in entries if isinstance(entry, dict)]
    envelope = Envelope(
        publication.exchange,
        (publication.routing_key, *(cc or ()), *bcc),
        bcc,
        cc,
        expiration,
        ttl_ms,
        min(max(int(publication.priority or 0), 0), MAX_PRIORITY),
        given_x_death=given,
        dropped=("BCC",) if "BCC" in headers else (),
    )
    return envelope, refusal


def _expiration(text: str) -> tuple[int | None, str]:
    """Parse an expiration: milliseconds, or the reason in RabbitMQ's words (R-TTL-6)."""
    match = _INTEGER.match(text)
    if match is None:
        return None, "no_integer"
    sign, digits, rest = match.groups()
    if rest:
        return None, f"{{leftover_string,{erlang_string(rest.encode())}}}"
    if sign == "-" and digits != "0":
        return None, f"{{value_negative,-{digits}}}"
    if len(digits) > _MAX_DIGITS or int(digits) > MAX_TTL_MS:
        return None, f"{{value_too_large,{digits}}}"
    return int(digits), ""


def _wrapped(start: str, term: str) -> str:
    """A term as RabbitMQ prints it: broken after the comma where it would pass column 80."""
    head, comma, tail = term.partition(",")
    column = len(start.rpartition("\n")[2])
    if comma and column + len(term) > _LINE:
        return f"{start}{head},\n{' ' * (column + 1)}{tail}"
    return start + term
