"""Why a consumer gave a message up: the reason of its reject or nack (R-SET-9).

    reject, reason "card declined"  -->  the event of the copy: detail.cause
                                    -->  its dead letters: the header `x-exception-message`

A cause belongs to one death. The header stays on the message, and each later cause replaces it. So
only copies that a consumer gave up with a reason have it in their envelope; equal ones share one.
"""

from typing import Final

import msgspec

from streaming.broker.message import Copy, Envelope

X_EXCEPTION_MESSAGE: Final = "x-exception-message"
"""The header that Spring AMQP's `RepublishMessageRecoverer` writes; others read it."""

MAX_CAUSE_BYTES: Final = 1024
"""A cause is cut here, in front of a character: it stays in the state as long as its message."""

MAX_KNOWN: Final = 10_000
"""Envelopes with causes that one batch remembers."""


def cause_of(reason: str | None) -> str | None:
    """The cause that a settlement gives, cut to its size; None if it gives none.

    What is no character in UTF-8, as half of a surrogate pair, becomes a question mark.
    """
    if not reason:
        return None
    if len(reason) <= MAX_CAUSE_BYTES and reason.isascii():
        return reason
    data = reason[:MAX_CAUSE_BYTES].encode("utf-8", "replace")
    return data[:MAX_CAUSE_BYTES].decode("utf-8", "ignore")


def with_cause(envelope: Envelope, cause: str) -> Envelope:
    """The envelope of a message that was given up for this cause."""
    return envelope.replace(added={**(envelope.added or {}), X_EXCEPTION_MESSAGE: cause})


class Causes:
    """The envelopes of the copies that were given up with a cause in one batch."""

    def __init__(self) -> None:
        self._known: dict[tuple[Envelope, str], Envelope] = {}

    def give(self, copy: Copy, cause: str) -> Copy:
        """Return the copy as it dies: the copy itself stays as its earlier events know it."""
        key = (copy.envelope, cause)
        envelope = self._known.get(key)
        if envelope is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            envelope = self._known[key] = with_cause(*key)
        return msgspec.structs.replace(copy, envelope=envelope)
