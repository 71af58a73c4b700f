"""The copies of one message: where each was, who held it, how it ended, and which came from it."""

from datetime import datetime
from typing import Any, Final

import msgspec

from streaming.broker.events import ENDINGS, Kind
from streaming.queries.duckdb_tables import Row
from streaming.queries.life.death_words import of_a_copy
from streaming.queries.message_history import MessageHistory
from topology.sentences import Sentence

_ENDS: Final = frozenset(kind.name.lower() for kind in (*ENDINGS, Kind.HELD))


class Hold(msgspec.Struct):
    """A delivery of a copy.

    Attributes:
        end: `acked`, `requeued`, `died` or another end; None while it is unacked.
    """

    user: str | None
    channel: str | None
    since: str
    until: str | None = None
    end: str | None = None


class CopyLife(msgspec.Struct):
    """What happened to one copy.

    Attributes:
        depth: how many deaths precede it.
        enqueued_at: None if retention removed the event.
        holds: its deliveries, in order.
        ttl_ms: how long it might stay in its queue when it entered; None: for ever, or unknown.
        end: how it left its queue; None while it is there.
        why: why it died, in words; None if it did not.
        targets: the queues that took what its death made.
        outcome: why a target is missing.
        x_death: the death records after its death, the latest first.
        children: the copies that its death made.
    """

    copy_id: int
    parent_copy_id: int | None
    depth: int
    queue: str
    enqueued_at: str | None
    holds: list[Hold] = []
    left_at: str | None = None
    end: str | None = None
    reason: str | None = None
    ttl_ms: int | None = None
    why: Sentence | None = None
    targets: list[str] = []
    outcome: str | None = None
    x_death: list[dict[str, Any]] = []
    children: list[int] = []


def copies_of(history: MessageHistory) -> list[CopyLife]:
    """The copies of a message as a tree: each is followed by those that came from it."""
    copies: dict[int, CopyLife] = {}
    births = {"enqueued"} if history.forgotten.events_at is None else {"enqueued", "died"}
    for row in history.opening:
        copy = CopyLife(row["copy_id"], row["parent_copy_id"], 0, row["queue"], row["enqueued_at"])
        copy.ttl_ms = _ttl_ms(copy.enqueued_at, row["expires_at"])
        if row["state"] == "unacked":
            copy.holds.append(Hold(row["user"], row["channel"], row["closed_at"]))
        copies[copy.copy_id] = copy
    for event in history.events:
        copy_id, kind = event["copy_id"], event["kind"]
        if copy_id is None:
            continue
        if copy_id not in copies and kind in births:
            at = event["at"] if kind == "enqueued" else None
            copies[copy_id] = CopyLife(copy_id, event["parent_copy_id"], 0, event["queue"], at)
            copies[copy_id].ttl_ms = _ttl_ms(at, event["expires_at"])
        if copy_id in copies and kind != "enqueued":
            _add(copies[copy_id], event, history)
    for copy_id, copy in sorted(copies.items()):
        if copy.parent_copy_id is not None and copy.parent_copy_id in copies:
            copies[copy.parent_copy_id].children.append(copy_id)
    roots = [copy for _id, copy in sorted(copies.items()) if copy.parent_copy_id not in copies]
    return [copy for root in roots for copy in _tree(root, copies)]


def _tree(root: CopyLife, copies: dict[int, CopyLife]) -> list[CopyLife]:
    found: list[CopyLife] = []
    work = [root]
    while work:
        copy = work.pop()
        found.append(copy)
        for child in reversed(copy.children):
            copies[child].depth = copy.depth + 1
            work.append(copies[child])
    return found


def _add(copy: CopyLife, event: Row, history: MessageHistory) -> None:
    kind = event["kind"]
    if kind in {"delivered", "consumed"}:
        copy.holds.append(Hold(event["user"], event["channel"], event["at"]))
    if kind in {"requeued", *_ENDS} and copy.holds and copy.holds[-1].end is None:
        hold = copy.holds[-1]
        hold.until, hold.end = event["at"], kind
    if kind not in _ENDS:
        return
    copy.left_at, copy.end, copy.reason = event["at"], kind, event["reason"]
    copy.why = of_a_copy(
        copy.reason,
        copy.ttl_ms,
        [(each.user, each.channel) for each in copy.holds],
        is_whole=copy.enqueued_at is not None,
    )
    death = history.deaths.get(event["seq"])
    if death is not None:
        copy.targets = list(death["targets"] or [])
        copy.outcome, copy.x_death = death["outcome"], death["x_death"]


def _ttl_ms(enqueued_at: str | None, expires_at: str | None) -> int | None:
    if enqueued_at is None or expires_at is None:
        return None
    lasts = datetime.fromisoformat(expires_at) - datetime.fromisoformat(enqueued_at)
    return round(lasts.total_seconds() * 1000)
