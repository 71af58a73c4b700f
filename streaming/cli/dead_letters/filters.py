"""The options that choose dead letters, alike for every command that asks them."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streaming.cli.listing.times import Since, Until, range_said, time_range
from streaming.cli.option_groups import options_of, with_options
from streaming.cli.options import VhostFilter, bounded_memory
from topology.suggestions import did_you_mean

if TYPE_CHECKING:
    from streaming.queries.dead_letters.filters import DeadLetterFilter
    from streaming.queries.duckdb_tables import Tables

REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit", "orphaned")
ENDS: Final = ("lost", "dropped")


def _options(
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="Only deaths in this queue.")
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="REASON",
            help="rejected, expired, maxlen, delivery_limit, or orphaned (queue alternates).",
        ),
    ] = None,
    exchange: Annotated[
        str | None,
        typer.Option(
            "--exchange", metavar="NAME", help="Only messages that came from this exchange."
        ),
    ] = None,
    routing_key: Annotated[
        str | None,
        typer.Option("--routing-key", metavar="KEY", help="Only messages with this routing key."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="NAME=VALUE",
            help="Only messages with this header, of AMQP or Kafka; NAME alone: with any value. "
            "May be repeated.",
        ),
    ] = None,
    cause: Annotated[
        str | None,
        typer.Option(
            "--cause", metavar="TEXT", help="Only letters of this cause, as `groups` prints it."
        ),
    ] = None,
    cause_header: Annotated[
        str | None,
        typer.Option(
            "--cause-header",
            metavar="NAME",
            help="The header that holds the cause. Default: the reason that the consumer gave, or "
            "x-exception and similar headers.",
        ),
    ] = None,
    cause_sql: Annotated[
        str | None,
        typer.Option(
            "--cause-sql",
            metavar="SQL",
            help="Take the cause from an expression, such as \"decode(body) ->> 'error'\".",
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            "--end",
            metavar="END",
            help="Only letters that no queue took: lost, or dropped because their queue has no "
            "place for them.",
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            help='A DuckDB condition on the columns, such as "count > 2"; decode(body) is text. It '
            "may take 4 GiB of memory.",
        ),
    ] = None,
    vhost: VhostFilter = None,
) -> "Filter":
    """Read the options."""
    begin, before = time_range(since, until)
    if reason is not None and reason not in REASONS:
        raise typer.BadParameter(
            f"unknown reason {reason!r}{did_you_mean(reason, REASONS)}: expected "
            f"{', '.join(REASONS)}",
            param_hint="--reason",
        )
    if end not in {None, *ENDS}:
        what = f"unknown end {end!r}{did_you_mean(end or '', ENDS)}: expected {' or '.join(ENDS)}"
        raise typer.BadParameter(what, param_hint="--end")
    if cause_header is not None and cause_sql is not None:
        what = "contradicts --cause-header: give one of them"
        raise typer.BadParameter(what, param_hint="--cause-sql")
    headers = tuple(_header(one) for one in header or ())
    chosen = {"vhost": vhost, "queue": queue, "reason": reason, "exchange": exchange}
    chosen |= {"routing_key": routing_key, "cause": cause, "end": end, "where": where}
    return Filter(chosen, headers, (cause_header, cause_sql), begin, before)


def _header(given: str) -> tuple[str, str | None]:
    name, equals, value = given.partition("=")
    if not name:
        what = f"{given!r} names no header: expected NAME=VALUE or NAME"
        raise typer.BadParameter(what, param_hint="--header")
    return name, value if equals else None


class Filter:
    """What a user chose.

    Attributes:
        chosen: option -> its value; None if it was not given.
        cause_source: the header and the expression of causes, at most one of them.
        begin, end: the period.
    """

    def __init__(
        self,
        chosen: dict[str, Any],
        headers: tuple[tuple[str, str | None], ...],
        cause_source: tuple[str | None, str | None],
        begin: datetime | None,
        end: datetime | None,
    ) -> None:
        self.chosen = chosen
        self.cause_source = cause_source
        self.begin = begin
        self.end = end
        self._headers = headers

    def read(self) -> "DeadLetterFilter":
        """The filter of `streaming.queries`."""
        from streaming.queries.dead_letters.cause_texts import CauseSource
        from streaming.queries.dead_letters.filters import DeadLetterFilter

        return DeadLetterFilter(
            **self.chosen,
            headers=self._headers,
            cause_source=CauseSource(*self.cause_source),
            since=self.begin,
            until=self.end,
        )

    def require_known(self, tables: "Tables") -> None:
        """Refuse a vhost, queue or exchange that the tables do not know.

        Raises:
            QueryError: it is unknown; the text says which known name is most similar.
        """
        from streaming.queries.dead_letters.letters import names_of_deaths
        from streaming.queries.vhosts.known_names import check_name, known_names, require_known

        vhost = self.chosen["vhost"]
        if vhost is not None:
            require_known(tables, "vhost", vhost)
        place = "" if vhost is None else f" in vhost {vhost!r}"
        for noun in ("queue", "exchange"):
            name = self.chosen[noun]
            if name is not None:
                known = {*known_names(tables, noun, vhost), *names_of_deaths(tables, noun)}
                check_name(noun, name, sorted(known), place)

    def period(self) -> str:
        """The period, to append to an answer; empty without limits."""
        return range_said(self.begin, self.end)

    def said(self) -> str:
        """The queue and the period, to append to an answer."""
        queue = self.chosen["queue"]
        return f"{'' if queue is None else f' in queue {queue!r}'}{self.period()}"

    def notes(self, is_complete: bool) -> list[str]:
        """What to say below a table about the period, unless the number of rows says it."""
        return [f"Dead letters{self.period()}."] if self.period() and is_complete else []


def filtered(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of a filter; it receives them as its parameter `which`."""

    @wraps(command)
    def bounded(*, which: Filter, **given: Any) -> int:
        is_sql = which.chosen["where"] is not None or which.cause_source[1] is not None
        with bounded_memory() if is_sql else nullcontext():
            return command(which=which, **given)

    return with_options(bounded, "which", options_of(_options), _options)
