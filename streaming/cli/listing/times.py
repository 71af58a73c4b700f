"""Instants as people type and read them: `yesterday`, `07:07`, `2h`; `3m ago`.

Text without a zone is in the zone of DLX_TZ, else of TZ, else of the machine. Times are printed in
the same zone.
"""

import os
import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Annotated, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from topology.errors import DlxError

ACCEPTED: Final = (
    "a time ago (30s, 15m, 2h, 3d), today, yesterday, 07:07, yesterday 07:07, 2026-11-21, "
    "2026-11-21 07:07, or ISO with a zone (2026-11-21T07:07:00Z)"
)
_HELP: Final = (
    "15m, 2h or 3d ago, today, yesterday, 07:07, '2026-11-21 07:07', or ISO. Without a zone it is "
    "local time: DLX_TZ, TZ or the machine's."
)
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help=f"Only from this time on: {_HELP}")
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Only before this time, written as for --since."),
]

_AGO: Final = re.compile(r"(?:[0-9]{1,9}[smhdw])+")
_AGO_PART: Final = re.compile(r"(?P<count>[0-9]+)(?P<unit>[smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS: Final = {"today": 0, "yesterday": 1}
_CLOCK: Final = re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{1,6})?)?")
_RECENT: Final = timedelta(days=14)


def zone() -> tzinfo | None:
    """The zone of DLX_TZ or TZ; None for the machine's.

    Raises:
        DlxError: DLX_TZ is not the name of a zone.
    """
    for variable in ("DLX_TZ", "TZ"):
        name = os.environ.get(variable)
        if not name:
            continue
        try:
            return UTC if name == "UTC" else ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            if variable == "DLX_TZ":
                what = f"DLX_TZ: {name!r} is not a time zone; set a name such as Europe/Berlin"
                raise DlxError(what) from None
    return None


def zone_name() -> str:
    """The name of the zone in which times are printed, such as `UTC` or `Europe/Berlin`."""
    here = zone()
    return here.key if isinstance(here, ZoneInfo) else f"{datetime.now(UTC).astimezone(here):%Z}"


def parse_time(text: str, now: datetime, option: str = "--since") -> datetime:
    """Return the instant that a text means; a clock time is the latest one that is not later.

    Raises:
        typer.BadParameter: the text is not understood; the message shows what is.
    """
    words = text.strip().lower().removesuffix(" ago").rstrip()
    try:
        found = _parse(words, now.astimezone(zone()))
        if found is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    what = f"cannot read {text!r} as a time: expected {ACCEPTED}"
    raise typer.BadParameter(what, param_hint=option)


def _parse(words: str, now: datetime) -> datetime | None:
    if words == "now":
        return now
    if _AGO.fullmatch(words):
        parts = [(part["count"], part["unit"]) for part in _AGO_PART.finditer(words)]
        return now - sum(
            (timedelta(**{_UNITS[unit]: int(count)}) for count, unit in parts), timedelta()
        )
    day, _, rest = words.partition(" ")
    if day in _DAYS:
        date = now.date() - timedelta(days=_DAYS[day])
        return _local(datetime.combine(date, _clock(rest) if rest else time()))
    if _CLOCK.fullmatch(words):
        found = _local(datetime.combine(now.date(), _clock(words)))
        if found <= now:
            return found
        return _local(datetime.combine(now.date() - timedelta(days=1), _clock(words)))
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])", words):
        return None
    found = datetime.fromisoformat(words.upper())
    return _local(found) if found.tzinfo is None else found


def _clock(text: str) -> time:
    if not _CLOCK.fullmatch(text):
        raise ValueError(text)
    return time.fromisoformat(text.zfill(5) if text.count(":") == 1 else text)


def _local(wall: datetime) -> datetime:
    """A wall-clock time in the zone of the user."""
    here = zone()
    return wall.astimezone() if here is None else wall.replace(tzinfo=here)


def time_range(
    since: str | None, until: str | None, now: datetime | None = None
) -> tuple[datetime | None, datetime | None]:
    """Parse `--since` and `--until`.

    Raises:
        typer.BadParameter: one is not understood, or they are in the wrong order.
    """
    now = now or datetime.now(UTC)
    begin = None if since is None else parse_time(since, now, "--since")
    end = None if until is None else parse_time(until, now, "--until")
    if begin is not None and end is not None and begin >= end:
        what = f"{until!r} ({said(end)}) is not after --since {since!r} ({said(begin)})"
        raise typer.BadParameter(what, param_hint="--until")
    return begin, end


def range_said(begin: datetime | None, end: datetime | None) -> str:
    """` since 2026-11-21 07:07:00 CET`, to append to an answer; empty without limits."""
    parts = [f" since {said(begin)}"] if begin else []
    return "".join([*parts, f" until {said(end)}"] if end else parts)


def said(instant: datetime) -> str:
    """An instant with its zone: `2026-11-21 07:07:00 CET`."""
    return instant.astimezone(zone()).strftime("%Y-%m-%d %H:%M:%S %Z")


def read_iso(text: str) -> datetime:
    """The instant of a JSON value such as `2026-03-01T12:00:00.250Z`."""
    return datetime.fromisoformat(text)


def short_times(texts: list[str | None], now: datetime) -> list[str]:
    """Write instants for a column: without the day if all are of today."""
    here = zone()
    try:
        instants = [None if text is None else read_iso(text).astimezone(here) for text in texts]
    except OverflowError:  # the end of time, in another zone
        return ["-" if text is None else text for text in texts]
    today = now.astimezone(here)
    days = {instant.date() for instant in instants if instant is not None}
    if days <= {today.date()}:
        form = "%H:%M:%S"
    elif {day.year for day in days} <= {today.year}:
        form = "%m-%d %H:%M:%S"
    else:
        form = "%Y-%m-%d %H:%M:%S"
    return ["-" if instant is None else instant.strftime(form) for instant in instants]


def is_near(text: str, now: datetime) -> bool:
    """Whether an instant is near enough to be written as a distance."""
    return abs(now - read_iso(text)) <= _RECENT


def relative(text: str | None, now: datetime) -> str:
    """`3m ago`, `in 2h`; the day if it is more than two weeks away."""
    if text is None:
        return "-"
    instant = read_iso(text)
    distance = abs(now - instant)
    if not is_near(text, now):
        return f"{instant.astimezone(zone()):%Y-%m-%d}"
    seconds = int(distance.total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size or (unit != "d" and seconds >= size):
            amount = f"{seconds // size}{unit}"
            break
    else:
        amount = f"{seconds}s"
    return f"in {amount}" if instant > now else f"{amount} ago"
