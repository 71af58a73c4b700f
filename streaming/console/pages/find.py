"""Find: one field for what people know; the only thing that is found opens at once.

shop-17 | 17 in a header or body  -->  the message
orders, or a part of a name        -->  the queue, the exchange
invoices-worker                    -->  its releases, in the audit
2026-11-22 10:05                   -->  the first page at that instant
"""

import re
from typing import Final

from streaming.console.page import Answer, Redirect, Refused, View
from streaming.console.pages.goto import address_of, places_named
from streaming.queries.actions import list_actions
from streaming.queries.duckdb_tables import QueryError, Row
from streaming.queries.life.find import find_messages
from streaming.queries.message_attributes import MessageId
from streaming.queries.message_history import history_of, message_named
from streaming.queries.search_index import indexed_paths
from streaming.queries.vhosts.changes import changed_name
from streaming.sentences import said, say

MAX_FOUND: Final = 50
MAX_PLACES: Final = 20
MAX_PARTS: Final = 5
MAX_WORD: Final = 500
_INSTANT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z?)?"
    r"|[0-9]{2}:[0-9]{2}(:[0-9]{2})?)"
)


def find(view: View) -> Answer:
    """Show the queues, exchanges, releases and messages that a text names."""
    text = (view.text("q") or "").strip()
    view.is_live = False
    view.title = say("Find")
    if len(text) > MAX_WORD:
        what = say("q: longer than %(count)s characters; write a part of it.", count=MAX_WORD)
        raise Refused(400, what)
    words = view.text("words") is not None
    view.command = view.dlx("why", *(["--words"] if words else []), names=[text])
    fault = None
    if MessageId.parse(text):
        fault = _no_message(view, text)
        if fault is None:
            return Redirect(view.url("/message", id=text))
    if _INSTANT.fullmatch(text):
        return Redirect(view.url("/", as_of=text))
    places = places_named(view, text) if text else []
    exact = [place for place in places if place.kind == "queue" and place.name == text]
    releases = _releases(view, text)
    found = find_messages(view.tables, text, MAX_FOUND, vhost=view.vhost, words=words)
    messages = found.messages
    if exact and not messages and len(exact) == 1:
        return Redirect(address_of(view, exact[0]))
    if not places and not releases and len(messages) == 1 and not words:
        return Redirect(view.url("/message", id=messages[0].message_id))
    if len(places) == 1 and not releases and not messages:
        return Redirect(address_of(view, places[0]))
    is_unknown = not places and not releases and not messages and fault is None
    if is_unknown and text and _is_message(view, text):
        return Redirect(view.url("/message", id=text))
    return {
        "text": text,
        "fault": fault,
        "places": [(place, address_of(view, place)) for place in exact or places[:MAX_PLACES]],
        "more_places": 0 if exact else max(len(places) - MAX_PLACES, 0),
        "releases": releases,
        "found": found,
        "parts_of_text": _parts(text) if is_unknown else [],
        "paths": [one.path for one in indexed_paths(view.tables)],
    }


def _parts(text: str) -> list[str]:
    """The words of a text that nothing has as a whole, such as `order 17`; numbers first."""
    words = list(dict.fromkeys(text.split()))
    has_digits = [word for word in words if any(letter.isdecimal() for letter in word)]
    found = [*has_digits, *(word for word in words if word not in has_digits)]
    return found[:MAX_PARTS] if len(words) > 1 else []


def _no_message(view: View, text: str) -> str | None:
    """Why a message of an id cannot be shown; None: it can."""
    try:
        history_of(view.tables, text)
    except QueryError as error:
        return said(error)
    return None


def _releases(view: View, text: str) -> list[Row]:
    """The latest deployments whose service or version contains a text."""
    if not text:
        return []
    rows = list_actions(
        view.tables,
        action="deployments",
        named=text,
        vhost=view.vhost,
        whole=view.user.administrator,
        count=MAX_PLACES,
    ).rows
    return [{**row, "name": changed_name(row["detail"] or {})} for row in rows]


def _is_message(view: View, text: str) -> bool:
    """Whether a publisher gave one message this id: one that never died, in what is visible."""
    try:
        message_named(view.tables, text)
    except QueryError:
        return False
    return True
