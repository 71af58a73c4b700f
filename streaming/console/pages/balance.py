"""Balance: where every copy went, and whether anything is unexplained."""

from typing import Final

from streaming.console.balance_watch import Asked
from streaming.console.page import PAGE_ROWS, Answer, View
from streaming.queries.audit.balance import ENDINGS

MAX_FINDINGS: Final = 100


def balance(view: View) -> Answer:
    """Account for all messages, by vhost and queue."""
    view.command = view.dlx("balance")
    tables = view.tables
    asked = Asked(tables.table("events").version(), view.as_of, tables.vhosts)
    view.close()  # another thread draws it
    found, is_asked = view.console.balance.of(view.console.reader, asked)
    if found is None:
        return {"balance": None, "is_asked": False}
    rows = [one for one in found.queues if view.sees(one.vhost)]
    findings = [one for one in found.findings if view.sees(one.vhost)]
    begin = (view.page - 1) * PAGE_ROWS
    return {
        "balance": found,
        "is_asked": is_asked,
        "unexplained": sum(one.count for one in findings),
        "vhosts": [one for one in found.vhosts if view.sees(one.vhost)],
        "rows": rows[begin : begin + PAGE_ROWS],
        "total": len(rows),
        "size": PAGE_ROWS,
        "endings": [one for one in ENDINGS if any(row.endings.get(one) for row in rows)],
        "findings": findings[:MAX_FINDINGS],
        "left_out": len(findings) - MAX_FINDINGS,
        "said": [str(one) for one in findings[:MAX_FINDINGS]],
    }
