"""Quarantine: the records that the job could not understand."""

from streaming.console.page import PAGE_ROWS, Answer, Refused, View
from streaming.queries.duckdb_tables import Row
from streaming.queries.quarantine import NAME, known_values, list_quarantine
from topology.sentences import say


def quarantine(view: View) -> Answer:
    """List the records in quarantine, the latest first."""
    view.title = say("Quarantine")
    if not view.user.administrator:
        what = say("Records in quarantine belong to no vhost: only an administrator sees them.")
        raise Refused(403, what)
    cause = view.text("cause")
    chosen = ["--cause", cause] if cause else []
    view.command = view.dlx("quarantine", "list", *chosen, vhost=False, as_of=False)
    rows: list[Row] = []
    causes: list[str] = []
    total = 0
    if view.tables.has(NAME):
        first = (view.page - 1) * PAGE_ROWS
        rows, total = list_quarantine(view.tables, cause=cause, limit=PAGE_ROWS, first=first)
        causes, _topics = known_values(view.tables)
    return {
        "rows": rows,
        "total": total,
        "size": PAGE_ROWS,
        "cause": cause,
        "causes": ["", *causes],
    }
