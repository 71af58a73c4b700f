"""The copies of one message: where each was, who held it, how it ended, and which came from it."""

from typing import Any, Final

import msgspec

from streaming.broker.events import ENDINGS, Kind
from streaming.queries.duckdb_tables import Row
from streaming.queries.message_history import MessageHistory

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
        holds: its deliveries, in order.
        end: how it left its queue; None while it is there.
        targets: the queues that took what its death made.
        outcome: why a target is missing.
        x_death: the death records after its death, the latest first.
        children: the copies that its death made.
    """

    copy_id: int
    parent_copy_id: int | None
    depth: int
    queue: str
    enqueued_at: str
    holds: list[Hold] = []
    left_at: str | None = None
    end: str | None = None
    reason: str | None = None
    targets: list[str] = []
    outcome: str | None = None
    x_death: list[dict[str, Any]] = []
    children: list[int] = []


def copies_of(history: MessageHistory) -> list[CopyLife]:
    """The copies of a message as a tree: each is followed by those that came from it."""
    copies: dict[int, CopyLife] = {}
    for event in history.events:
        copy_id = event["copy_id"]
        if copy_id is None:
            continue
        if event["kind"] == "enqueued":
            parent = copies.get(event["parent_copy_id"])
            depth = 0 if parent is None else parent.depth + 1
            copies[copy_id] = CopyLife(
                copy_id, event["parent_copy_id"], depth, event["queue"], event["at"]
            )
            if parent is not None:
                parent.children.append(copy_id)
        elif copy_id in copies:
            _add(copies[copy_id], event, history)
    roots = [copy for copy in copies.values() if copy.parent_copy_id not in copies]
    return [copy for root in roots for copy in _tree(root, copies)]


def _tree(root: CopyLife, copies: dict[int, CopyLife]) -> list[CopyLife]:
    found: list[CopyLife] = []
    work = [root]
    while work:
        copy = work.pop()
        found.append(copy)
        work.extend(copies[child] for child in reversed(copy.children))
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
    death = history.deaths.get(event["seq"])
    if death is not None:
        copy.targets = list(death["targets"] or [])
        copy.outcome, copy.x_death = death["outcome"], death["x_death"]
