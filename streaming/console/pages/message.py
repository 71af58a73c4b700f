"""Message: one message's life, its copies, who held them, its body and headers, and as a file."""

import json
import re
from datetime import datetime
from itertools import pairwise
from typing import Final

from streaming.console.bodies import FORMS, Opened, best_form, opened, shown
from streaming.console.page import Answer, Download, Refused, View
from streaming.console.shown import printable
from streaming.console.story import story_of
from streaming.queries.actions import actions_on
from streaming.queries.as_of.instant import first_event
from streaming.queries.duckdb_tables import Row
from streaming.queries.life.copies import copies_of
from streaming.queries.life.related import bytes_of, related_to
from streaming.queries.life.summary import Cause, summary_of
from streaming.queries.life.why import changes_before
from streaming.queries.message_attributes import MessageId
from streaming.queries.message_history import MessageHistory, history_of
from streaming.queries.vhosts.changes import Change
from topology.sentences import say

_MOVES: Final = frozenset({"redriven", "republished", "discarded", "skipped", "purged"})
"""What somebody did to copies, by a command whose user and reason another event has."""

MAX_CAUSES: Final = 3
"""Of so many causes the change before the first death is named."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def message(view: View) -> Answer:
    """Show everything known about one message."""
    history = message_of(view)
    view.title = say("Message %(id)s", id=history.message_id)
    view.command = view.dlx("dead-letters", "show", names=[history.message_id], vhost=False)
    row = content_row(history)
    body = opened_body(row)
    form, forms = None, []
    text, is_cut = None, False
    if body is not None:
        forms = [one for one in FORMS if one != "raw" or body.compression]
        chosen = view.text("body")
        form = next((one for one in forms if one == chosen), None) or best_form(body.content)
        text, is_cut = shown(bytes_of(row["body"]) or b"" if form == "raw" else body.content, form)
    copies = copies_of(history)
    doings = _doings(view, history)
    doers = {
        event["copy_id"]: doings[event["seq"]]["user"] or say("the operator")
        for event in history.events
        if event["kind"] in {"redriven", "republished"} and event["seq"] in doings
    }
    summary = summary_of(copies, history.now, has_content=history.forgotten.body is None)
    return {
        "history": history,
        "row": row,
        "name": _name(row),
        "found": view.text("found"),
        "found_in": view.text("found_in"),
        "copies": copies,
        "summary": summary,
        "given": _given(history),
        "changed": _changed(view, row.get("vhost"), summary.causes),
        "known_since": first_event(view.tables) if summary.causes else None,
        "why": {(copy.copy_id, copy.left_at): copy.why for copy in copies},
        "doings": doings,
        "waits": _waits(history.events),
        "more": {event["seq"]: _more(event) for event in history.events},
        "story": story_of(copies, view.known_until, doers, view.language),
        "versions": versions_of(history),
        "related": related_to(view.tables, history),
        "opened": body,
        "body": text,
        "is_cut": is_cut or (body is not None and body.is_cut and form != "raw"),
        "form": form,
        "forms": forms,
        "deaths": list(reversed(history.deaths.values())),
    }


def message_body(view: View) -> Answer:
    """Send the body as it arrived."""
    history = message_of(view)
    body = bytes_of(content_row(history).get("body"))
    if body is None:
        what = say("The body of message %(id)s is not in the tables.", id=history.message_id)
        raise Refused(404, what)
    return Download(f"{_file(history)}.bin", "application/octet-stream", iter([body]))


def message_scenario(view: View) -> Answer:
    """Send the message as a scenario, which `dlx simulate` replays."""
    history = message_of(view)
    if history.hidden is not None:
        what = say("%(why)s: the message cannot become a scenario.", why=history.hidden)
        raise Refused(403, what)
    from streaming.queries.life.scenario import scenario_of  # noqa: PLC0415 - few need a broker

    replay = scenario_of(view.tables, history)
    content = json.dumps(replay.document, indent=2, ensure_ascii=False).encode() + b"\n"
    return Download(f"{_file(history)}.json", "application/json", iter([content]))


def message_of(view: View, parameter: str = "id") -> MessageHistory:
    """The history of the message in a parameter of the URL.

    Raises:
        Refused: the URL names none, or the user may read none of the queues that it was in.
    """
    name = view.text(parameter)
    if name is None:
        what = say(
            "Choose a message: the address has no parameter %(name)s, such as 1/0/42.",
            name=parameter,
        )
        raise Refused(400, what)
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
        what = say("Message %(id)s was in no queue that you may read.", id=repr(name))
        raise Refused(403, what)
    if not any(view.may_read(*place) for place in places):
        view.require_read(*places[0])
    return history


def content_row(history: MessageHistory) -> Row:
    """The row with the content of a message: its own, or that of its first death."""
    return history.message or next(iter(history.deaths.values()), None) or {}


def _name(row: Row) -> str | None:
    """The id that the publisher gave a message; None: none, or it is hidden."""
    given = (row.get("properties") or {}).get("message_id")
    return given if isinstance(given, str) and given else None


def opened_body(row: Row) -> Opened | None:
    """The body of such a row, opened if it is compressed; None: it is not stored, or hidden."""
    body = bytes_of(row.get("body"))
    encoding = (row.get("properties") or {}).get("content_encoding")
    return None if body is None else opened(body, encoding if isinstance(encoding, str) else None)


def versions_of(history: MessageHistory) -> list[str]:
    """The messages that edits made of this one, and the one that an edit made it of."""
    found = [] if history.version_of is None else [history.version_of]
    for event in history.events:
        edit = (event["detail"] or {}).get("edit") or {}
        if event["kind"] in {"redriven", "republished"} and edit.get("message"):
            found.append(str(MessageId(*edit["message"])))
    return [one for one in dict.fromkeys(found) if one != history.message_id]


def _given(history: MessageHistory) -> dict[tuple[str, str], str | None]:
    """By queue and reason: the cause of the last death, if the user may read it."""
    if history.hidden is not None:
        return {}
    return {(one["queue"], one["reason"]): one.get("cause") for one in history.deaths.values()}


def _changed(
    view: View, vhost: str | None, causes: list[Cause]
) -> list[tuple[Cause, Change | None]]:
    """The last change before the first death of each cause; None: there is none."""
    return [
        (
            one,
            next(
                iter(changes_before(view.tables, vhost, one.queue, one.first_at, view.declared)),
                None,
            ),
        )
        for one in causes[:MAX_CAUSES]
        if vhost is not None
    ]


def _doings(view: View, history: MessageHistory) -> dict[int, Row]:
    """By event: who did it, and why; only of what somebody commanded for many copies."""
    if not any(event["kind"] in _MOVES for event in history.events):
        return {}
    message = MessageId.parse(history.message_id)
    assert message is not None
    rows = actions_on(view.tables, message)
    return {row["seq"]: row for row in rows if view.sees(row["vhost"])}


def _more(event: Row) -> Row:
    """What the page does not say of an event in words."""
    detail = event["detail"] or {}
    return {name: value for name, value in detail.items() if name not in {"cause", "redrive"}}


def _waits(events: list[Row]) -> dict[int, float]:
    """By event: how many seconds after the event before it."""
    times = [(event["seq"], datetime.fromisoformat(event["at"])) for event in events]
    return {seq: (at - before).total_seconds() for (_, before), (seq, at) in pairwise(times)}


def _file(history: MessageHistory) -> str:
    return f"message-{_UNSAFE.sub('-', printable(history.message_id))}"
