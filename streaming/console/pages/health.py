"""Health: the batches, the gate, the tables, and how far back the pages can go."""

import time
from collections.abc import Mapping
from typing import Any, Final

from streaming.console.page import Answer, View
from streaming.console.verdict import STALE_S
from streaming.ledger.batch_detail import BatchRow
from streaming.queries.job_totals import earliest_event_s, last_batches
from streaming.queries.table_info import describe

BATCHES: Final = 30


def _batch(row: BatchRow) -> Mapping[str, Any]:
    detail = row.detail
    return {
        "batch_id": row.batch_id,
        "at_s": row.at_s,
        "gate": detail.gate,
        "resident": detail.counted,
        "rows": detail.rows or {},
    }


def health(view: View) -> Answer:
    """Show the last batches, the gate and the tables."""
    view.command = view.dlx("tables", "info", vhost=False, as_of=False)
    batches = [_batch(one) for one in last_batches(view.tables, BATCHES)]
    return {
        "is_stale": view.as_of is None
        and bool(batches)
        and time.time() - batches[0]["at_s"] > STALE_S,
        "sees_all": view.user.administrator,  # how much there is of all vhosts together
        "batches": batches,
        "tables": describe(view.tables),
        "earliest_s": earliest_event_s(view.tables),
    }
