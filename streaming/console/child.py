"""A process that answers requests with SQL of users, within memory that the system limits.

DuckDB limits its own pool of memory, and not what one value takes. So the limit is one of the
process: an allocation beyond it fails, and the console and the job are not touched.

    python -m streaming.console.child < settings, requests > answers
"""

import os
import sys
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import IO, Final

import msgspec

from streaming.child_processes.frames import END, receive, send
from streaming.child_processes.memory_limit import limit_memory
from streaming.console.all_pages import PAGES
from streaming.console.answering import Answering, Asked
from streaming.console.languages import Languages
from streaming.console.page import Console
from streaming.console.reader import Reader

POOL: Final = "200MB"
"""What DuckDB takes before it writes to temporary files."""


class ChildSettings(msgspec.Struct, frozen=True):
    """What a child needs to know, besides the requests."""

    root: str
    options: dict[str, str]
    config: str | None
    places: dict[str, str]
    is_read_only: bool
    can_log_out: bool
    language: str | None = None


class Head(msgspec.Struct, frozen=True):
    """The first frame of an answer; its body follows, in parts.

    Attributes:
        is_last: the child ends after this answer.
    """

    status: int
    headers: dict[str, str]
    is_file: bool
    is_last: bool = False


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    requests = sys.stdin.buffer
    first = receive(requests)
    if first is None:
        return
    settings = msgspec.msgpack.decode(first, type=ChildSettings)
    console = Console(
        Reader(settings.root, settings.options, pool=POOL),
        PAGES,
        None if settings.config is None else Path(settings.config),
        settings.is_read_only,
        settings.places,
        languages=Languages(settings.language),
    )
    answering = Answering(console, can_log_out=settings.can_log_out)
    warm_up(console.reader)
    console.templates(console.languages.wanted(None)).get_template("sql.html")  # compiles it
    limit_memory()
    send(answers, END)  # it is ready
    while (request := receive(requests)) is not None:
        if _answer(answering, msgspec.msgpack.decode(request, type=Asked), answers):
            break


def warm_up(reader: Reader) -> None:
    """Load what a query needs, before memory is limited."""
    import streaming.queries.sql  # noqa: F401, PLC0415 - for its effect

    with suppress(Exception), reader.open() as tables:  # the answers will say it
        tables.connection.execute("SELECT json_serialize_sql('SELECT 1')").fetchall()


def _answer(answering: Answering, asked: Asked, answers: IO[bytes]) -> bool:
    """Answer a request; return whether it was the last one."""
    found = answering.answer(asked)
    is_last = (
        answering.console.reader.is_exhausted or found.status == HTTPStatus.INTERNAL_SERVER_ERROR
    )
    head = Head(found.status, found.headers, found.file is not None, is_last)
    send(answers, msgspec.msgpack.encode(head))
    for part in found.file or (found.body,):
        if part:
            send(answers, part)
    send(answers, END)
    return is_last


if __name__ == "__main__":
    main()
