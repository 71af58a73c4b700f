"""Search: the dead letters by attributes, their number first, a page at a time, and as a file."""

import tempfile
from collections.abc import Iterator
from typing import IO, Final

import msgspec

from streaming.console.forms.letters import (
    PARAMETERS,
    kept,
    letters_filter,
    names_by_publisher,
    options_of,
    readable_queues,
)
from streaming.console.forms.saved_views import SavedViews
from streaming.console.movable import movable
from streaming.console.page import PAGE_ROWS, Answer, Download, Redirect, Refused, View
from streaming.queries.dead_letters.export import FORMATS, STDOUT, export
from streaming.queries.dead_letters.filters import DeadLetterFilter, Selection
from streaming.queries.dead_letters.groups import is_among
from streaming.queries.dead_letters.letters import count_dead_letters, dead_letters
from streaming.queries.dead_letters.repeated import repeated_deaths
from streaming.queries.dead_letters.search import search as search_letters
from streaming.queries.dead_letters.waiting import prepare_waiting_deaths
from streaming.queries.duckdb_tables import Tables
from streaming.queries.message_attributes import MessageId
from streaming.queries.result import QueryResult
from topology.sentences import say

MAX_EXPORTED: Final = 200_000
_CHUNK: Final = 65_536
_MEDIA: Final = {"csv": "text/csv", "jsonl": "application/x-ndjson"}


def search(view: View) -> Answer:
    """Show how many dead letters match, by attribute, and a page of them.

    An id that the publisher gave leads to the message.
    """
    named = view.text("id")
    if named is not None and names_by_publisher(named):
        return Redirect(view.url("/message", id=named))
    order = view.one_of("order", "latest", "oldest")
    words = [*options_of(view), *(("--sort", "at") if order == "oldest" else ())]
    view.command = view.dlx("dead-letters", "list", *words, "--limit", PAGE_ROWS)
    wanted = letters_filter(view)
    if order == "oldest":
        wanted = msgspec.structs.replace(wanted, order=("at", False))
    found = search_letters(view.tables, wanted, (view.page - 1) * PAGE_ROWS, PAGE_ROWS)
    ids = [MessageId.parse(row["message_id"] or "") for row in found.rows]
    repeated = repeated_deaths(view.tables, filter(None, ids), readable_queues(view))
    return {
        "found": found,
        "waiting": _waits(view, wanted),
        "is_gone": any(one.value for one in found.facets["outcome"]),
        "repeated": repeated,
        "order": order,
        "size": PAGE_ROWS,
        "kept": kept(view),
        "parameters": PARAMETERS,
        "formats": FORMATS,
        "too_many": found.total > MAX_EXPORTED,
        "saved": SavedViews(view.user.name).all(),
    }


def _waits(view: View, wanted: DeadLetterFilter) -> bool:
    """Whether a redrive can move a letter of a filter."""
    letters = movable(view)
    known = DeadLetterFilter(vhost=wanted.vhost, queue=wanted.queue, reason=wanted.reason)
    if not letters.has(known.vhost, known.queue, known.reason):
        return False
    if msgspec.structs.replace(wanted, order=None) == known:
        return True

    def has_some(tables: Tables) -> bool:
        waiting = prepare_waiting_deaths(tables, letters.queues)
        if waiting is None:
            return False
        return bool(Selection(tables, wanted).values("1", f"AND {is_among(waiting)} LIMIT 1"))

    return view.once(f"waits {wanted}", has_some)


def export_search(view: View) -> Answer:
    """Send the dead letters of a search as a file."""
    form = view.one_of("format", *FORMATS)
    wanted = letters_filter(view)
    count = count_dead_letters(view.tables, wanted)
    if count > MAX_EXPORTED:
        command = view.dlx("dead-letters", "export", f"letters.{form}", *options_of(view))
        what = say(
            "%(count)s letters are more than %(most)s: narrow the search, or `%(command)s`",
            count=count,
            most=MAX_EXPORTED,
            command=command,
        )
        raise Refused(413, what)
    return as_file(dead_letters(view.tables, wanted), "dead-letters", form)


def as_file(result: QueryResult, name: str, form: str) -> Download:
    """An answer as a file; it is complete before the first byte is sent."""
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed after it is sent
    try:
        export(result, STDOUT, next(one for one in FORMATS if one == form), stdout=file)
    except BaseException:
        file.close()
        raise
    return Download(f"{name}.{form}", _MEDIA.get(form, "application/octet-stream"), _sent(file))


def _sent(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while part := file.read(_CHUNK):
            yield part


def save_view(view: View) -> Answer:
    """Keep the address of a search under a name."""
    name = view.form.get("name", "").strip()
    if not name:
        raise Refused(400, say("Give the view a name."))
    SavedViews(view.user.name).put(name, view.url("/search", **_here(view)))
    return Redirect(view.url("/search", **_here(view)))


def forget_view(view: View) -> Answer:
    """Remove a kept view."""
    SavedViews(view.user.name).remove(view.form.get("name", "").strip())
    return Redirect(view.url("/search", **_here(view)))


def _here(view: View) -> dict[str, str]:
    return kept(view)
