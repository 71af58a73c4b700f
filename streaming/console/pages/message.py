"""Message: one message's life, its copies, who held them, its body and headers, and as a file."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from streaming.console.page import Answer, Download, Refused, View
from streaming.console.shown import printable
from streaming.queries.life.copies import copies_of
from streaming.queries.life.scenario import scenario_of
from streaming.queries.message_attributes import decoded
from streaming.queries.message_history import MessageHistory, history_of

FORMS: Final = ("text", "json", "hex")
MAX_TEXT: Final = 100_000
MAX_HEX: Final = 16_384
"""The most characters, or bytes in hexadecimal, of a body on the page; the download has all."""

_HEX_LINE: Final = 16
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def message(view: View) -> Answer:
    """Show everything known about one message."""
    history = _history(view)
    view.title = history.message_id
    view.command = view.dlx("dead-letters", "show", names=[history.message_id], vhost=False)
    wanted = view.one_of("body", *FORMS)
    row = history.message or next(iter(history.deaths.values()), None) or {}
    body = _bytes(row.get("body"))
    copies = copies_of(history)
    shown, is_cut = (None, False) if body is None else _shown(body, wanted)
    return {
        "history": history,
        "row": row,
        "copies": copies,
        "why": {(copy.copy_id, copy.left_at): copy.why for copy in copies},
        "body": shown,
        "is_cut": is_cut,
        "form": wanted,
        "forms": FORMS,
        "deaths": list(history.deaths.values()),
    }


def message_body(view: View) -> Answer:
    """Send the body as it arrived."""
    history = _history(view)
    row = history.message or next(iter(history.deaths.values()), None) or {}
    body = _bytes(row.get("body"))
    if body is None:
        raise Refused(404, f"The body of message {history.message_id} is not in the tables.")
    return Download(f"{_file(history)}.bin", "application/octet-stream", iter([body]))


def message_scenario(view: View) -> Answer:
    """Send the message as a scenario, which `dlx simulate` replays."""
    history = _history(view)
    if history.hidden_in:
        names = ", ".join(history.hidden_in)
        raise Refused(403, f"You may not read {names}: the message cannot become a scenario.")
    replay = scenario_of(view.tables, history)
    content = json.dumps(replay.document, indent=2, ensure_ascii=False).encode() + b"\n"
    return Download(f"{_file(history)}.json", "application/json", iter([content]))


def _history(view: View) -> MessageHistory:
    """The history of the message in the URL.

    Raises:
        Refused: the URL names none, or the user may read none of the queues that it was in.
    """
    name = view.text("id")
    if name is None:
        raise Refused(400, "Choose a message: the address has no parameter id, such as 1/0/42.")
    history = history_of(view.tables, name)
    if view.user.administrator:
        return history
    places = sorted(
        {
            (row["vhost"], row["queue"])
            for row in (*history.events, *history.deaths.values(), *history.opening)
            if row.get("queue") and row.get("vhost")
        }
    )
    if not places:
        raise Refused(403, f"Message {name!r} was in no queue that you may read.")
    if not any(view.may_read(*place) for place in places):
        view.require_read(*places[0])
    return history


def _bytes(body: Any) -> bytes | None:
    """The bytes of a body as typed JSON."""
    if body is None:
        return None
    return decoded(body["$bytes"]) if isinstance(body, dict) else str(body).encode()


def _shown(body: bytes, form: str) -> tuple[str, bool]:
    """A body as a text, and whether it is cut."""
    if form == "hex":
        return "\n".join(_hex(body[:MAX_HEX])), len(body) > MAX_HEX
    text = body.decode("utf-8", "backslashreplace")
    if form == "json":
        try:
            text = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            text = f"The body is not JSON.\n\n{text}"
    return text[:MAX_TEXT], len(text) > MAX_TEXT


def _hex(body: bytes) -> Iterator[str]:
    for start in range(0, len(body), _HEX_LINE):
        line = body[start : start + _HEX_LINE]
        text = "".join(chr(one) if chr(one).isascii() and 31 < one < 127 else "." for one in line)  # noqa: PLR2004
        yield f"{start:08x}  {line.hex(' '):<47}  {text}"


def _file(history: MessageHistory) -> str:
    return f"message-{_UNSAFE.sub('-', printable(history.message_id))}"
