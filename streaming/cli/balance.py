"""`dlx balance`: where every copy went, and whether anything is unexplained."""

from typing import TYPE_CHECKING, Any, Final

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.output import print_json, print_rows
from streaming.cli.table_options import AsJson, TablesLocation, VhostFilter, open_tables
from topology.suggestions import did_you_mean

if TYPE_CHECKING:
    from streaming.queries.audit.balance import Balance, QueueBalance

_MOST_SHOWN: Final = 20


def balance(
    *, vhost: VhostFilter = None, as_json: AsJson = False, tables: TablesLocation = None
) -> int:
    """Draw the balance of all messages, by vhost and queue.

    What was published or dead-lettered into a queue is ready, unacked, held, or has left by an
    ack, a death, a purge or a deletion. UNEXPLAINED counts rows of the tables that are missing or
    at odds with others; each is named, with its message.

    Exit status: 0 if nothing is unexplained, 1 if something is, 2 if the tables cannot be read.
    """
    from streaming.queries.audit.balance import balance as draw

    with open_tables(tables) as opened:
        drawn = draw(opened)
    if as_json:
        print_json(_document(drawn, vhost))
    else:
        _print(drawn, vhost)
    return EXIT_FINDINGS if drawn.unexplained else EXIT_OK


def _document(drawn: "Balance", vhost: str | None) -> dict[str, Any]:
    return {
        "batch_id": drawn.batch_id,
        "unexplained": drawn.unexplained,
        "vhosts": [row for row in drawn.vhosts if vhost in {None, row.vhost}],
        "queues": [row for row in drawn.queues if vhost in {None, row.vhost}],
        "quarantined": drawn.quarantined,
        "resident": drawn.resident,
        "findings": drawn.findings,
    }


def _print(drawn: "Balance", vhost: str | None) -> None:
    from streaming.queries.audit.balance import ENDINGS

    queues = [row for row in drawn.queues if vhost in {None, row.vhost}]
    endings = [name for name in ENDINGS if any(row.endings.get(name) for row in queues)]
    titles = ["VHOST", "QUEUE", "PUBLISHED", "DEAD-LETTERED", "READY", "UNACKED", "HELD"]
    titles += [name.upper().replace("_", " ") for name in endings]
    if queues:
        print_rows([*titles, "UNEXPLAINED"], [_line(row, endings) for row in queues])
    for full in queues:
        if full.refused:
            place = f"queue {full.queue!r} in vhost {full.vhost!r}"
            print(f"{place} was full and refused {full.refused}")
    for row in drawn.vhosts:
        if vhost in {None, row.vhost}:
            print(
                f"vhost {row.vhost!r}: {row.messages} messages arrived, {row.unroutable} of them "
                f"unroutable, {row.returned} returned, {row.publish_errors} refused with an error"
            )
    if vhost is not None and vhost not in {row.vhost for row in drawn.vhosts}:
        known = [row.vhost for row in drawn.vhosts if row.vhost is not None]
        print(f"nothing is known of vhost {vhost!r}{did_you_mean(vhost, known)}")
    if drawn.quarantined:
        print(f"{drawn.quarantined} records are in quarantine")
    for finding in drawn.findings[:_MOST_SHOWN]:
        print(finding)
    if len(drawn.findings) > _MOST_SHOWN:
        print(f"and {len(drawn.findings) - _MOST_SHOWN} more: --json has all")
    last = "no batch yet" if drawn.batch_id is None else f"up to batch {drawn.batch_id}"
    print(f"unexplained: {drawn.unexplained} ({last})")


def _line(row: "QueueBalance", endings: list[str]) -> list[object]:
    return [
        row.vhost,
        row.queue,
        row.published,
        row.dead_lettered,
        row.ready,
        row.unacked,
        row.held,
        *(row.endings.get(name, 0) for name in endings),
        row.unexplained,
    ]
