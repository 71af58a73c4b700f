"""`dlx balance`: accounts for every copy of every message."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.listing.table import Column, Listing, Row, print_listing
from streaming.cli.listing.view import OutputOptions, listing
from streaming.cli.options import ConfigFile, TablesLocation, VhostFilter
from streaming.cli.output import print_json
from streaming.cli.tables.history import AsOf, open_as_of

if TYPE_CHECKING:
    from streaming.queries.audit.balance import Balance, QueueBalance

_MAX_FINDINGS: Final = 20


def _listing(endings: tuple[str, ...]) -> Listing:
    return Listing(
        (
            Column("vhost", 2, identifies=True),
            Column("queue", 0),
            Column("published", 1),
            Column("dead_lettered", 1),
            Column("ready", 2),
            Column("unacked", 2),
            Column("held", 3),
            *(Column(name, 3) for name in endings),
            Column("refused", 4),
            Column("unexplained", 1),
        )
    )


@listing
def balance(
    *,
    vhost: VhostFilter = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole", help="Check every row that the tables have, not only those after a snapshot."
        ),
    ] = False,
    as_of: AsOf = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Account for all messages, by vhost and queue.

    Every copy that was published or dead-lettered into a queue is ready, unacked, held, or has left
    it: acked, dead-lettered, purged or deleted. UNEXPLAINED counts rows of the tables that are
    missing or contradict others; each one is listed with its message. It starts at the last
    snapshot, whose totals it takes over.

    Exit status: 0 if nothing is unexplained, 1 if something is, 2 if the tables cannot be read.
    """
    from streaming.queries.audit.balance import ENDINGS
    from streaming.queries.audit.balance import balance as compute
    from streaming.queries.vhosts.known_names import require_known

    columns = _listing(ENDINGS)
    columns.check(view)
    with open_as_of(tables, config, as_of) as opened:
        if vhost is not None:
            require_known(opened, "vhost", vhost)
        result = compute(opened, whole=whole)
    queues = [_row(each, ENDINGS) for each in result.queues if vhost in {None, each.vhost}]
    if view.output == "csv" or (view.output == "json" and view.columns is not None):
        print_listing(columns, queues, view)
    elif view.output == "json":
        print_json(
            {
                "batch_id": result.batch_id,
                "opening_batch_id": result.opening_batch_id,
                "unexplained": result.unexplained,
                "vhosts": [row for row in result.vhosts if vhost in {None, row.vhost}],
                "queues": [row for row in result.queues if vhost in {None, row.vhost}],
                "quarantined": result.quarantined,
                "resident": result.resident,
                "findings": result.findings,
            }
        )
    else:
        if queues:
            print_listing(columns, queues, view)
        _print_totals(result, vhost)
    return EXIT_FINDINGS if result.unexplained else EXIT_OK


def _row(queue: "QueueBalance", endings: tuple[str, ...]) -> Row:
    row: dict[str, Any] = msgspec.to_builtins(queue)
    return {**dict.fromkeys(endings, 0), **row, **row.pop("endings")}


def _print_totals(result: "Balance", vhost: str | None) -> None:
    for total in result.vhosts:
        if vhost in {None, total.vhost}:
            messages = "message" if total.messages == 1 else "messages"
            print(
                f"vhost {total.vhost!r}: {total.messages} {messages} published: "
                f"{total.unroutable} unroutable, {total.returned} returned, "
                f"{total.publish_errors} with an error"
            )
    if result.quarantined:
        records = "record is" if result.quarantined == 1 else "records are"
        print(f"{result.quarantined} {records} in quarantine")
    for finding in result.findings[:_MAX_FINDINGS]:
        print(finding)
    if len(result.findings) > _MAX_FINDINGS:
        print(f"and {len(result.findings) - _MAX_FINDINGS} more: --json lists all")
    last = "no batch yet" if result.batch_id is None else f"up to batch {result.batch_id}"
    opening = result.opening_batch_id
    since = "" if opening is None else f", checked from the snapshot after batch {opening} on"
    print(f"unexplained: {result.unexplained} ({last}{since})")
