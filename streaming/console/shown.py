"""Values as a page shows them: escaped text, instants, numbers, sizes."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from markupsafe import Markup

from streaming.queries.damage import one_line
from topology.sentences import Sentence, say, to_say

__all__ = ["FILTERS", "finalize", "one_line", "printable"]

PREVIEW_CHARACTERS: Final = 200
_KEPT: Final = "\n\t"
_SPANS: Final = (
    (86_400, to_say("%(count)s d")),
    (3_600, to_say("%(count)s h")),
    (60, to_say("%(count)s min")),
)
_SIZES: Final = (
    (1e9, to_say("%(size)s GB")),
    (1e6, to_say("%(size)s MB")),
    (1e3, to_say("%(size)s kB")),
)


def printable(text: str) -> str:
    """Write control characters as their escapes in Python; line ends and tabs stay.

    Characters that change the direction of text or are invisible are escaped too.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in _KEPT else repr(one)[1:-1] for one in text)


def finalize(value: object) -> object:
    """Prepare the value of an expression in a template; nothing is shown for None."""
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping | list | tuple):
        return printable(compact(value))
    return value


def compact(value: Any) -> str:
    """A nested value as one line of JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def readable(value: object) -> str:
    """A body or header as text: text itself, anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else compact(value)


def preview(value: object, characters: int = PREVIEW_CHARACTERS) -> str:
    """The beginning of a value on one line."""
    text = printable(readable(value)).replace("\n", " ")
    return text if len(text) <= characters else f"{text[:characters]}…"


def instant(value: str | float | datetime | None) -> str:
    """An instant in UTC: `2026-11-22 10:05:00.250`; empty for None."""
    if value is None:
        return ""
    text = _time(value).astimezone(UTC).isoformat(" ", timespec="milliseconds")
    return text.removesuffix("+00:00").removesuffix(".000")


def hour_after(value: str | float | datetime) -> str:
    """The instant an hour later, as `instant` writes it."""
    return instant(_time(value) + timedelta(hours=1))


def just_after(value: str | float | datetime) -> str:
    """The instant after this one, as `instant` writes it; events have milliseconds."""
    return instant(_time(value) + timedelta(milliseconds=1))


def just_before(value: str | float | datetime) -> str:
    """The instant before this one, as `instant` writes it; events have milliseconds."""
    return instant(_time(value) - timedelta(milliseconds=1))


def ago(
    value: str | float | datetime | None, now: str | float | datetime | None = None
) -> Sentence | str:
    """How long before now an instant was: `3 min`, `2 h`, `5 d`."""
    if value is None:
        return ""
    return duration((datetime.now(UTC) if now is None else _time(now)) - _time(value))


def _time(value: str | float | datetime) -> datetime:
    """An instant from epoch seconds or ISO text."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def duration(value: timedelta | float) -> Sentence:
    """A length of time in its largest unit: `12 s`, `3 min`, `2 h`, `5 d`."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    for size, unit in _SPANS:
        if abs(seconds) >= 2 * size:
            return say(unit, count=int(seconds // size))
    return say("%(count)s s", count=round(seconds))


def number(value: float | None) -> str:
    """A number with separators: `1,234,567`."""
    return "" if value is None else f"{value:,}"


def size(value: float | None) -> Sentence | str:
    """A number of bytes: `512 B`, `1.5 MB`."""
    if value is None:
        return ""
    for factor, unit in _SIZES:
        if value >= factor:
            return say(unit, size=value / factor)
    return say("%(size)s B", size=round(value))


def rate(value: float) -> Sentence | str:
    """How often in a second, with two digits: `120/s`, `12/s`, `1.5/s`, `0.7/s`, `0.02/s`."""
    if not value:
        return "0"
    digits = 0 if value >= 10 else 1 if value >= 0.1 else 2  # noqa: PLR2004 - two digits
    shown = max(round(value, digits), 0.01)
    return say("%(rate)s/s", rate=int(shown) if shown == int(shown) else shown)


def iso(value: str | float | datetime | None) -> str:
    """An instant as the attribute `datetime` has it."""
    return "" if value is None else _time(value).isoformat()


def later_than(value: str, since: datetime | None, seconds: float) -> bool:
    """Whether an instant was at least so long after another; yes, if that is not known."""
    return since is None or (_time(value) - since).total_seconds() >= seconds


def pairs(value: object) -> object:
    """Names with their values, without the punctuation of JSON; anything else as it is."""
    if not isinstance(value, Mapping):
        return '""' if value == "" else value
    known = ((name, one) for name, one in value.items() if one is not None and one not in ({}, []))
    return " · ".join(f"{name} {_plain(one)}" for name, one in known)


def _plain(value: object) -> str:
    if isinstance(value, Mapping) and value:
        known = (f"{name} {_plain(one)}" for name, one in value.items() if one is not None)
        return f"({', '.join(known)})"
    if isinstance(value, list | tuple) and value:
        return ", ".join(map(_plain, value))
    return value if isinstance(value, str) and value else compact(value)


FILTERS: Final = {
    "ago": ago,
    "duration": duration,
    "hour_after": hour_after,
    "instant": instant,
    "iso": iso,
    "just_after": just_after,
    "just_before": just_before,
    "later_than": later_than,
    "number": number,
    "pairs": pairs,
    "preview": preview,
    "rate": rate,
    "readable": readable,
    "size": size,
}
"""The filters of templates by name."""
