"""What the commands of a redrive carry: its letters, where each one goes, and how they move.

A sealed plan (`protocol.sealed_plan`) holds the same.
"""

from typing import Final

import msgspec


class Target(msgspec.Struct, frozen=True, array_like=True):
    """Where a redriven letter goes.

    Attributes:
        queue: the queue it enters, and only it; None: it is published to the exchange again.
        exchange, routing_keys: what the letter shows then as its exchange and keys.
    """

    queue: str | None
    exchange: str
    routing_keys: tuple[str, ...]


NOT_IN_LOG: Final = -1
"""Stands for the size of a letter whose content the front of its vhost has not found."""


class StoredLetter(msgspec.Struct, frozen=True, array_like=True):
    """A letter that is in no queue any more: what it takes to publish it again.

    Attributes:
        message: topic number, partition, offset.
        size: bytes of its body, which stays where it is stored; NOT_IN_LOG: the log of a sequenced
            vhost has it no more.
        headers: its headers as typed JSON text, without the death records.
        deaths: `count, reason, queue, time_s, exchange, routing_keys, original_expiration`, the
            newest first.
    """

    message: tuple[int, int, int]
    size: int
    priority: int
    headers: str | None
    deaths: tuple[tuple[int, str, str, int, str, tuple[str, ...], str | None], ...]
    first_death: tuple[str, str, str] | None = None
    last_death: tuple[str, str, str] | None = None


class Edit(msgspec.Struct, frozen=True, array_like=True):
    """What an edit makes of a letter: a new version, which is stored as a message of its own.

    Attributes:
        original, version: hashes of the body, properties and headers before and after.
        priority: the new one; None: as before.
        expiration: the new one; empty: none; None: as the options of the redrive say.
    """

    original: str
    version: str
    priority: int | None = None
    expiration: str | None = None


class Letter(msgspec.Struct, frozen=True, array_like=True):
    """One letter of a sealed plan: an exact copy.

    Attributes:
        copy_id: the copy, on its lane.
        queue: the queue it is in, or the last one it was in.
        target: None: it is discarded.
        published_ms: when the message was published; only read if its expiration is kept.
        stored: only for a letter that is in no queue any more.
        edit: the version that enters the target instead; None: the letter as it is.
    """

    lane: int
    copy_id: int
    queue: str
    target: Target | None = None
    published_ms: int = 0
    stored: StoredLetter | None = None
    edit: Edit | None = None


class RedriveOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a redrive moves its letters.

    Attributes:
        action: `redrive`; `discard`: the letters leave their queues; `restore`: like `redrive`, but
            the letters return as they were, without marks.
        expiration: `drop`, `keep` (counted from the publish) or `restart`.
        x_death: `keep` or `clear` in the header; the ledger keeps it.
        rate: letters a second; None: as fast as the broker moves them.
        ceiling: letters wait while their target has this many ready messages.
        canary: the first letters, whose fate the others wait for.
        stop_after, stop_percent: how many letters, or which share, may die again.
        cap: letters that were redriven this often already stay where they are.
    """

    action: str = "redrive"
    expiration: str = "drop"
    x_death: str = "keep"
    rate: int | None = None
    ceiling: int | None = None
    canary: int = 0
    stop_after: int | None = None
    stop_percent: int | None = None
    cap: int = 3
