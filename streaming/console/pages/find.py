"""Find: one field for what people know; the only thing that is found opens at once.

shop-17 | 17 in a header or body  -->  the message
orders, or a part of a name        -->  the queue, the exchange
invoices-worker                    -->  its releases, in the audit
2026-11-22 10:05                   -->  the first page at that instant
orders 10:05 | orders yesterday    -->  the queue at that instant
order=17 | order:17                -->  the message with this value of a header, property or member
purge | release | lost             -->  the page about it
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from streaming.console.page import Answer, Redirect, Refused, View
from streaming.console.pages.goto import Place, address_of, places_named, topics_of
from streaming.console.reader import is_clock, with_date
from streaming.queries.actions import list_actions
from streaming.queries.duckdb_tables import QueryError, Row
from streaming.queries.life.find import find_messages
from streaming.queries.message_attributes import MessageId
from streaming.queries.message_history import history_of, message_named
from streaming.queries.search_index import indexed_paths
from streaming.queries.vhosts.changes import changed_name
from topology.sentences import said, say

MAX_FOUND: Final = 50
MAX_PLACES: Final = 20
MAX_PARTS: Final = 5
MAX_WORD: Final = 500
LEAST_OF_QUESTION: Final = 4
"""A shorter word of a question, such as `it`, leads nowhere."""

_INSTANT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z?)?"
    r"|[0-9]{2}:[0-9]{2}(:[0-9]{2})?)"
)

_DAYS: Final = {"today": 0, "heute": 0, "yesterday": 1, "gestern": 1}
"""Days before today; without a time of day, the same as now."""

_AGO: Final = re.compile(r"([0-9]{1,6}) ?(s|m|min|h|d)(?: ago)?")
_UNITS: Final = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}
_MOST_TIME_WORDS: Final = 3


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
    then = _queue_then(view, text)
    if then is not None:
        return Redirect(then)
    topics = topics_of(view, text)
    places = places_named(view, text) if text else []
    exact = [place for place in places if place.kind == "queue" and place.name == text]
    releases = _releases(view, text)
    found = find_messages(view.tables, text, MAX_FOUND, vhost=view.vhost, words=words)
    messages = found.messages
    if exact and not messages and len(exact) == 1:
        return Redirect(address_of(view, exact[0]))
    if not places and not releases and not topics and len(messages) == 1 and not words:
        [one] = messages
        return Redirect(view.url("/message", id=one.message_id, found=text, found_in=one.place))
    pages = [*places, *topics]
    if len(pages) == 1 and not releases and not messages:
        return Redirect(address_of(view, pages[0]))
    is_unknown = not pages and not releases and not messages and fault is None
    if is_unknown and text and _is_message(view, text):
        return Redirect(view.url("/message", id=text, found=text, found_in="message_id"))
    if is_unknown:
        topics = _topics_asked_for(view, text)
        if len(topics) == 1:
            return Redirect(address_of(view, topics[0]))
    return {
        "text": text,
        "fault": fault,
        "topics": [(topic, address_of(view, topic)) for topic in topics],
        "places": [(place, address_of(view, place)) for place in exact or places[:MAX_PLACES]],
        "more_places": 0 if exact else max(len(places) - MAX_PLACES, 0),
        "releases": releases,
        "found": found,
        "parts_of_text": _parts(text) if is_unknown and not topics else [],
        "paths": [one.path for one in indexed_paths(view.tables)],
    }


def _topics_asked_for(view: View, text: str) -> list[Place]:
    """The pages that words of a question name: `who purged it`, `is anything lost?`."""
    words = [word.strip("?!.,;:") for word in text.split()]
    if len(words) == 1 or any(letter.isdecimal() for letter in text):
        return []
    found: list[Place] = []
    for word in words:
        for one in topics_of(view, word) if len(word) >= LEAST_OF_QUESTION else ():
            if one not in found:
                found.append(one)
    return found


def _queue_then(view: View, text: str) -> str | None:
    """The page of a queue at an instant, if a text is a part of its name and a time."""
    words = text.split()
    for count in range(1, min(len(words), _MOST_TIME_WORDS + 1)):
        name, time = " ".join(words[:-count]), " ".join(words[-count:])
        at = _time_of(time)
        if at is None:
            continue
        queues = [place for place in places_named(view, name) if place.kind == "queue"]
        found: list[Place] = [place for place in queues if place.name == name] or queues
        if len(found) == 1:
            return view.url("/queue", vhost=found[0].vhost, queue=found[0].name, as_of=at)
    return None


def _time_of(text: str) -> str | None:
    """The instant that words name, as pages write it; None: they name none."""
    now = datetime.now(UTC)
    if is_clock(text):
        return with_date(text)
    if _INSTANT.fullmatch(text):
        return text
    day, _, clock = text.lower().partition(" ")
    if day in _DAYS and (not clock or is_clock(clock)):
        date = now - timedelta(days=_DAYS[day])
        return f"{date:%Y-%m-%d} {clock.zfill(5) if clock else f'{date:%H:%M:%S}'}"
    ago = _AGO.fullmatch(text.lower())
    if ago is None:
        return None
    try:
        then = now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    except OverflowError:
        return None
    return f"{then:%Y-%m-%d %H:%M:%S}"


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
