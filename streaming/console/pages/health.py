"""Health: the job, the batches, the gate, the tables, and how far back the pages can go."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streaming.console.job_watch import CAUSES
from streaming.console.page import Answer, View
from streaming.console.verdict import STALE_S
from streaming.ledger.batch_detail import BatchRow
from streaming.queries.job_totals import earliest_event_s, last_batches
from streaming.queries.table_info import describe
from topology.sentences import say

if TYPE_CHECKING:
    from streaming.pipeline.checkpoint.job_state import Failing

BATCHES: Final = 30


class Job(NamedTuple):
    """The job, as a page shows it.

    Attributes:
        runs: whether its process runs; None: not known.
        failing: the attempts that failed since the last batch; None: none that is known.
        what, advice: what failed, and what to do, in words; `what` is empty if that is not known.
    """

    runs: bool | None = None
    failing: "Failing | None" = None
    what: str = ""
    advice: str = ""


def job_of(view: View) -> Job:
    """The job now, as far as its checkpoint tells."""
    console = view.console
    if console.config is None or view.as_of is not None:
        return Job()
    state = console.job.of(console.config)
    runs = True if console.is_beside_job else None if state is None else state.runs
    failing = None if state is None else state.failing
    if failing is None:
        return Job(runs)
    what, advice = CAUSES.get(failing.cause, ("", say("Look up the error, and correct its cause.")))
    return Job(runs, failing, what, advice)


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
        "job": job_of(view),
        "is_stale": view.as_of is None
        and bool(batches)
        and time.time() - batches[0]["at_s"] > STALE_S,
        "sees_all": view.user.administrator,  # how much there is of all vhosts together
        "batches": batches,
        "tables": describe(view.tables),
        "earliest_s": earliest_event_s(view.tables),
    }
