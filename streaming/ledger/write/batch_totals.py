"""How many rows a batch has: written into its batch row, so that a row removed later is missed.

Inside the tables most rows vouch for each other (see `checks.py`). Not so the last row of a shard,
a quarantined record, or a batch's rows when all of them are gone. These figures cover them.

    {"rows": {"messages": 120, "events": 540, ...}, "last_seq": [["/", 0, 4711], ...]}
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streaming.ledger.write.data_file import DataFile

ROWS: Final = "rows"
"""Rows of the batch by table; the batch row itself is not counted."""

LAST_SEQ: Final = "last_seq"
"""Last seq of each shard that had events in the batch: vhost, lane, seq."""

_EVENTS: Final = "events"


def totals(files: Iterable["DataFile"]) -> dict[str, Any]:
    """What a batch row should say of the batch's data files, the row's own file not among them."""
    rows: dict[str, int] = {}
    last: dict[tuple[str, int], int] = {}
    for file in files:
        rows[file.table] = rows.get(file.table, 0) + file.rows
        if file.table == _EVENTS:
            ranges = file.ranges
            shard = (str(ranges["vhost"].greatest), int(ranges["lane"].greatest or 0))
            last[shard] = max(last.get(shard, 0), int(ranges["seq"].greatest or 0))
    return {
        ROWS: dict(sorted(rows.items())),
        LAST_SEQ: [[vhost, lane, seq] for (vhost, lane), seq in sorted(last.items())],
    }
