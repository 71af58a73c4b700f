"""Find: one field for what people know; the only thing that is found opens at once.

shop-17 | 17 in a header or body  -->  the message
orders                             -->  the queue
2026-11-22 10:05                   -->  the first page at that instant
"""

import re
from typing import Final

from streaming.console.page import Answer, Redirect, Refused, View
from streaming.queries.duckdb_tables import QueryError
from streaming.queries.life.find import find_messages
from streaming.queries.message_attributes import MessageId
from streaming.queries.message_history import message_named
from streaming.queries.search_index import indexed_paths
from streaming.sentences import say

MAX_FOUND: Final = 50
MAX_WORD: Final = 500
_INSTANT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z?)?"
    r"|[0-9]{2}:[0-9]{2}(:[0-9]{2})?)"
)


def find(view: View) -> Answer:
    """Show the queues and messages that a text names."""
    text = (view.text("q") or "").strip()
    view.is_live = False
    view.title = say("Find")
    if len(text) > MAX_WORD:
        what = say("q: longer than %(count)s characters; write a part of it.", count=MAX_WORD)
        raise Refused(400, what)
    words = view.text("words") is not None
    view.command = view.dlx("why", *(["--words"] if words else []), names=[text])
    if MessageId.parse(text):
        return Redirect(view.url("/message", id=text))
    if _INSTANT.fullmatch(text):
        return Redirect(view.url("/", as_of=text))
    queues = [
        (vhost, text)
        for vhost, declared in sorted(view.declared.items())
        if view.sees(vhost) and text and text in declared.queues
    ]
    found = find_messages(view.tables, text, MAX_FOUND, vhost=view.vhost, words=words)
    messages = found.messages
    if queues and not messages and len(queues) == 1:
        return Redirect(view.url("/queue", vhost=queues[0][0], queue=text))
    if not queues and len(messages) == 1 and not words:
        return Redirect(view.url("/message", id=messages[0].message_id))
    if not queues and not messages and text and _is_message(view, text):
        return Redirect(view.url("/message", id=text))
    return {
        "text": text,
        "queues": queues,
        "found": found,
        "paths": [one.path for one in indexed_paths(view.tables)],
    }


def _is_message(view: View, text: str) -> bool:
    """Whether a publisher gave one message this id: one that never died, in what is visible."""
    try:
        message_named(view.tables, text)
    except QueryError:
        return False
    return True
