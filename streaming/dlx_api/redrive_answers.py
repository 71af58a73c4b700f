"""What `/api/dlx` answers about redrives and their plans; see `answers.py`."""

from typing import Any

import msgspec

from streaming.dlx_api.answers import Count, Instant, Pages


class RedriveRow(msgspec.Struct, kw_only=True):
    """A redrive, with how many of its letters have which fate."""

    id: str
    vhost: str
    status: str
    action: str | None = None
    requested_at: Instant
    changed_at: Instant
    user: str | None = None
    reason: str | None = None
    total: int | None = None
    moved: Count
    skipped: Count
    parked: Count
    acked: Count
    died: Count
    waiting: Count


class LetterFate(msgspec.Struct, kw_only=True):
    """What became of one letter: `acked`, `died`, `waiting`, `skipped`, `parked` or another end."""

    message_id: str | None = None
    copy_id: int | None = None
    lane: int | None = None
    came_from: str | None = None
    went_to: str | None = None
    moved_at: Instant | None = None
    fate: str
    reason: str | None = None
    ended_at: Instant | None = None
    version: dict[str, Any] | None = None


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a redrive.

    Attributes:
        new_deaths: messages that died meanwhile where the letters went, and are none of them.
    """

    redrive: RedriveRow
    new_deaths: Count
    letters: Pages[LetterFate]


class ForecastOf(msgspec.Struct, kw_only=True):
    """Letters of a plan that are alike, and what would become of them."""

    died_in: str
    reason: str
    now_in: str
    goes_to: str
    letters: Count
    forecast: dict[str, int]


class LastChange(msgspec.Struct, kw_only=True):
    """The latest change of a queue: `what`, such as `policy set`, and of what (`name`)."""

    at: Instant
    what: str
    name: str
    user: str | None = None
    reason: str | None = None


class RiskOf(msgspec.Struct, kw_only=True):
    """Why letters may die again in a queue that they go to.

    Attributes:
        change: it still stands, and letters died there after it.
        since: the first of these deaths.
        is_final: no dead-letter exchange takes what dies there.
    """

    queue: str
    change: LastChange | None = None
    since: Instant | None = None
    is_final: bool


class Plan(msgspec.Struct, kw_only=True):
    """A sealed plan: exactly these letters move when it is approved, if they are still there.

    Attributes:
        unacked: letters of the filter that a consumer holds; they are not in the plan.
        copies: further copies of messages that the plan sends; they stay.
        unreadable: letters left out because you may not read the queues that they are in.
        edited: how many of the letters the plan edits.
    """

    id: str
    seal: str
    vhost: str
    made_at: Instant
    action: str
    letters: Count
    unacked: Count = 0
    copies: Count = 0
    unreadable: Count = 0
    edited: Count = 0
    groups: list[ForecastOf] = []
    risks: list[RiskOf] = []


class RedriveNow(msgspec.Struct, kw_only=True):
    """How far a redrive is, by the broker."""

    id: str
    status: str
    total: Count
    moved: Count
    skipped: Count
    parked: Count
