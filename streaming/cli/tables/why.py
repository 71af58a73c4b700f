"""`dlx why`: who died, where, why, since when, and what may be done."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.listing.times import read_iso, relative, said
from streaming.cli.listing.view import OutputOptions, output
from streaming.cli.options import ConfigFile, TablesLocation, VhostFilter
from streaming.cli.output import print_in_colour, print_json
from streaming.cli.tables.history import AsOf, AsUser, open_as_of

if TYPE_CHECKING:
    from streaming.queries.duckdb_tables import Tables
    from streaming.queries.life.find import Found
    from streaming.queries.life.why import Death, Why

Line = tuple[str, str]
"""A text and its tone."""

MAX_LISTED: Final = 20


@output
def why(
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="An id, or what a publisher calls it: a message_id, a correlation_id, a value of "
            "`[tables] search`, or a word of a dead letter.",
        ),
    ],
    *,
    vhost: VhostFilter = None,
    words: Annotated[
        bool,
        typer.Option("--words", help="Search words of dead letters, also if a value is found."),
    ] = False,
    as_of: AsOf = None,
    as_user: AsUser = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Say why a message died, where, since when, and what to do.

    If several messages have the text, they are listed, the latest first.

    Exit status: 1 if nothing is found. What was not looked at is said.
    """
    with open_as_of(tables, config, as_of, as_user) as opened:
        from streaming.queries.life.find import Found, find_messages
        from streaming.queries.life.why import why_of
        from streaming.queries.message_attributes import MessageId

        if MessageId.parse(text):
            found = Found([], has_more=False, indexed=False, unseen=[])
            answer: Why | None = why_of(opened, text)
        else:
            found = find_messages(opened, text, MAX_LISTED, vhost=vhost, words=words)
            alone = len(found.messages) == 1
            answer = why_of(opened, found.messages[0].message_id) if alone else None
            if not found.messages:
                answer = _named(opened, text)
    if view.output == "json":
        print_json({"text": text, "found": found, "why": answer})
    else:
        print_in_colour(_lines(text, found, answer))
    return EXIT_OK if answer or found.messages else EXIT_FINDINGS


def _named(tables: "Tables", name: str) -> "Why | None":
    """The message that its publisher gave this id, also if it never died; None: there is none."""
    from streaming.queries.duckdb_tables import QueryError
    from streaming.queries.life.why import why_of

    try:
        return why_of(tables, name)
    except QueryError:
        return None


def _lines(text: str, found: "Found", answer: "Why | None") -> Iterator[Line]:
    if answer is not None:
        if found.messages:
            yield f"{text} is in {found.messages[0].place} of message {answer.message_id}", "title"
        yield from _story(answer)
    elif found.messages:
        more = "more than " if found.has_more else ""
        yield f"{more}{len(found.messages)} messages have {text}:", "title"
        for one in found.messages:
            death = "did not die"
            if one.at is not None:
                death = f"{one.reason} in {one.queue} {_moment(one.at)}"
            yield f"  dlx why {one.message_id}  # {one.place}: {death}", "plain"
            if one.published_at is not None:
                name = f"{one.name}, " if one.name else ""
                place = f"{one.exchange or 'the default exchange'} with key {one.routing_key!r}"
                yield f"    {name}published {_moment(one.published_at)} to {place}", "quiet"
    else:
        yield f"nothing has {text} as an id, a value or a word", "bad"
    for sentence in found.unseen:
        yield sentence, "quiet"


def _story(why: "Why") -> Iterator[Line]:
    exchange = why.exchange or "the default exchange"
    by = f" by {why.published_by}" if why.published_by else ""
    yield (
        f"message {why.message_id}, published{by} to {exchange} with key {why.routing_key!r}",
        ("head"),
    )
    if why.is_partial:
        yield "its earlier events were removed by tables.retention: this may not be all", "quiet"
    for death in why.deaths:
        yield from _death(death, is_hidden=why.hidden is not None)
    if not why.deaths:
        ended = f": {', '.join(why.ended)}" if why.ended else ""
        yield f"it did not die{ended}", "good"
    if why.hidden is not None:
        yield f"{why.hidden}: what it holds is hidden", "quiet"
    for place in why.now:
        yield f"now it is {place.state} in queue {place.queue!r}", "head"
    if not why.now:
        yield "now no queue has it", "head"
    for change in why.changes:
        who = change.user or "the operator"
        what = f"{change.what} {change.name!r}" if change.name else change.what
        reason = f": {change.reason}" if change.reason else ""
        yield f"before it: {what} by {who} {_moment(change.at)}{reason}", "moved"
    width = max(map(len, why.next))
    for command, purpose in why.next.items():
        yield f"  {command:{width}}  # {purpose}", "plain"


def _death(death: "Death", *, is_hidden: bool) -> Iterator[Line]:
    from streaming.queries.ends import end_of_letter
    from streaming.queries.message_history import LOSSES

    yield f"it died in queue {death.queue!r} {_moment(death.at)}: {death.why}", "bad"
    if death.cause:
        yield f"  it said: {death.cause}", "plain"
    elif death.reason == "rejected" and not is_hidden:
        yield "  no reason given", "quiet"
    went = ", ".join(map(repr, death.targets))
    end = end_of_letter(death.outcome, death.reason) or "lost"
    because = LOSSES.get(death.outcome or "", death.outcome or "no queue took it")
    yield f"  the dead letter {f'went to {went}' if went else f'was {end}: {because}'}", "plain"
    if death.alike > 1:
        deaths = f"{death.alike:,} such deaths in this queue"
        yield f"  {deaths} are known, the first {_moment(death.alike_since)}", "plain"


def _moment(instant: str) -> str:
    if not instant:
        return "at a time that is not known"
    return f"{relative(instant, datetime.now(UTC))} ({said(read_iso(instant))})"
