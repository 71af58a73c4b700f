"""Balance: where every copy went, and whether anything is unexplained."""

from typing import Final

from streaming.console.account import account_of, account_of_all, entered_none, ways_of
from streaming.console.balance_watch import Asked
from streaming.console.page import PAGE_ROWS, Answer, View

MAX_FINDINGS: Final = 100


def balance(view: View) -> Answer:
    """Account for all messages, by vhost and queue."""
    view.command = view.dlx("balance")
    tables = view.tables
    version = tables.table("events").version()
    asked = Asked(version, view.as_of, tables.vhosts, view.console.quiet_in("DlxDeadLettersLost"))
    view.close()  # another thread draws it
    drawn, is_asked = view.console.balance.of(view.console.reader, asked)
    if drawn is None:
        return {"balance": None, "is_asked": False}
    found = drawn.balance
    rows = [one for one in found.queues if view.sees(one.vhost)]
    findings = [one for one in found.findings if view.sees(one.vhost)]
    begin = (view.page - 1) * PAGE_ROWS
    return {
        "balance": found,
        "drawn": drawn,
        "ways": ways_of(drawn),
        "account": account_of_all(found),
        "entered_none": entered_none(found),
        "is_asked": is_asked,
        "unexplained": sum(one.count for one in findings),
        "vhosts": [one for one in found.vhosts if view.sees(one.vhost)],
        "rows": [(row, account_of(row)) for row in rows[begin : begin + PAGE_ROWS]],
        "total": len(rows),
        "size": PAGE_ROWS,
        "findings": findings[:MAX_FINDINGS],
        "left_out": len(findings) - MAX_FINDINGS,
        "said": [one.sentence for one in findings[:MAX_FINDINGS]],
    }
