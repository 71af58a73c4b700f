"""Compare: what differs between two messages, such as an edited letter and what it was before."""

import difflib
from typing import Any, Final, NamedTuple

import msgspec

from streaming.console.page import Answer, Refused, View
from streaming.console.pages.message import content_row, message_of, opened_body
from streaming.protocol.letter_content import LetterContent
from streaming.queries.message_history import MessageHistory
from streaming.queries.redrives.edits import body_lines
from topology.sentences import say

MAX_LINES: Final = 3_000
"""The most lines of a body that are compared: the time grows with their square."""

MAX_SHOWN: Final = 400
"""The most lines of the difference of two bodies that are shown."""

_NOTHING: Final = say("is absent")
_PROPERTY: Final = say("property")
_HEADER: Final = say("header")
_PUBLISHED_WITH: Final = say("published with")


class Difference(NamedTuple):
    """What one name has in each of the messages."""

    what: str
    name: str
    first: str
    second: str


def compare(view: View) -> Answer:
    """Show what differs in the headers, properties and bodies of two messages."""
    first, second = message_of(view), message_of(view, "with")
    view.title = say("%(first)s and %(second)s", first=first.message_id, second=second.message_id)
    view.command = view.dlx("dead-letters", "show", names=[second.message_id], vhost=False)
    if (hidden := first.hidden or second.hidden) is not None:
        raise Refused(403, say("%(why)s: the contents are hidden.", why=hidden))
    contents = [_content(one) for one in (first, second)]
    lines, is_partial = _diff(contents[0].body, contents[1].body)
    return {
        "first": first,
        "second": second,
        "unknown": [
            one.message_id for one in (first, second) if content_row(one).get("body") is None
        ],
        "differences": [*_differences(contents), *_of_rows(first, second)],
        "lines": lines[:MAX_SHOWN],
        "more": len(lines) - MAX_SHOWN,
        "is_partial": is_partial,
        "is_same": contents[0].body == contents[1].body,
        "sizes": [len(one.body) for one in contents],
    }


def _content(history: MessageHistory) -> LetterContent:
    row = content_row(history)
    body = opened_body(row)
    content = b"" if body is None else body.content
    return LetterContent(content, row.get("properties") or {}, row.get("headers") or {})


def _differences(contents: list[LetterContent]) -> list[Difference]:
    found = []
    for what in (_PROPERTY, _HEADER):
        sides = [one.properties if what is _PROPERTY else one.headers or {} for one in contents]
        for name in sorted({*sides[0], *sides[1]}):
            values = [_said(side[name]) if name in side else _NOTHING for side in sides]
            if values[0] != values[1]:
                found.append(Difference(what, name, *values))
    return found


def _of_rows(first: MessageHistory, second: MessageHistory) -> list[Difference]:
    rows = [content_row(one) for one in (first, second)]
    found = []
    for name in ("exchange", "routing_key"):
        values = [_said(row.get(name)) for row in rows]
        if values[0] != values[1]:
            found.append(Difference(_PUBLISHED_WITH, name, *values))
    return found


def _said(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _diff(first: bytes, second: bytes) -> tuple[list[str], bool]:
    """The lines that differ, with those around them, and whether only beginnings were compared."""
    if first == second:
        return [], False
    sides = [body_lines(one) for one in (first, second)]
    before, after = (one[:MAX_LINES] for one in sides)
    lines = difflib.unified_diff(before, after, n=2, lineterm="")
    return list(lines)[2:], any(len(one) > MAX_LINES for one in sides)
