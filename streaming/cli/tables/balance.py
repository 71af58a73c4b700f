"""`dlx balance`: accounts for every copy of every message."""

from typing import TYPE_CHECKING, Final

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.options import ConfigFile, TablesLocation, VhostFilter, open_tables
from streaming.cli.output import AsJson, print_json, print_rows
from topology.suggestions import did_you_mean

if TYPE_CHECKING:
    from streaming.queries.audit.balance import Balance

_MAX_FINDINGS: Final = 20


def balance(
    *,
    vhost: VhostFilter = None,
    as_json: AsJson = False,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Account for all messages, by vhost and queue.

    Every copy that was published or dead-lettered into a queue is ready, unacked, held, or has left
    it: acked, dead-lettered, purged or deleted. UNEXPLAINED counts rows of the tables that are
    missing or contradict others; each one is listed with its message.

    Exit status: 0 if nothing is unexplained, 1 if something is, 2 if the tables cannot be read.
    """
    from streaming.queries.audit.balance import balance as compute

    with open_tables(tables, config) as opened:
        result = compute(opened)
    if as_json:
        print_json(
            {
                "batch_id": result.batch_id,
                "unexplained": result.unexplained,
                "vhosts": [row for row in result.vhosts if vhost in {None, row.vhost}],
                "queues": [row for row in result.queues if vhost in {None, row.vhost}],
                "quarantined": result.quarantined,
                "resident": result.resident,
                "findings": result.findings,
            }
        )
    else:
        _print(result, vhost)
    return EXIT_FINDINGS if result.unexplained else EXIT_OK


def _print(result: "Balance", vhost: str | None) -> None:
    from streaming.queries.audit.balance import ENDINGS

    queues = [row for row in result.queues if vhost in {None, row.vhost}]
    endings = [name for name in ENDINGS if any(row.endings.get(name) for row in queues)]
    titles = ["VHOST", "QUEUE", "PUBLISHED", "DEAD-LETTERED", "READY", "UNACKED", "HELD"]
    titles += [name.upper().replace("_", " ") for name in endings]
    if queues:
        print_rows(
            [*titles, "UNEXPLAINED"],
            [
                [
                    *(row.vhost, row.queue, row.published, row.dead_lettered),
                    *(row.ready, row.unacked, row.held),
                    *(row.endings.get(name, 0) for name in endings),
                    row.unexplained,
                ]
                for row in queues
            ],
        )
    for row in queues:
        if row.refused:
            place = f"queue {row.queue!r} in vhost {row.vhost!r}"
            print(f"{place} was full and refused {row.refused} messages")
    for total in result.vhosts:
        if vhost in {None, total.vhost}:
            print(
                f"vhost {total.vhost!r}: {total.messages} messages published: {total.unroutable} "
                f"unroutable, {total.returned} returned, {total.publish_errors} refused with an "
                "error"
            )
    known = [total.vhost for total in result.vhosts if total.vhost is not None]
    if vhost is not None and vhost not in known:
        print(f"the tables have no vhost {vhost!r}{did_you_mean(vhost, known)}")
    if result.quarantined:
        print(f"{result.quarantined} records are in quarantine")
    for finding in result.findings[:_MAX_FINDINGS]:
        print(finding)
    if len(result.findings) > _MAX_FINDINGS:
        print(f"and {len(result.findings) - _MAX_FINDINGS} more: --json lists all")
    last = "no batch yet" if result.batch_id is None else f"up to batch {result.batch_id}"
    print(f"unexplained: {result.unexplained} ({last})")
