"""Audit: who did what, when and why; of all, or of what was done to one message."""

from typing import Final

from streaming.console.page import PAGE_ROWS, Answer, Refused, View
from streaming.console.pages.topology_changes import is_drawn, just_before, told
from streaming.queries.actions import ACTIONS, CONDITIONS, actions_on, list_actions, on_queue
from streaming.queries.duckdb_tables import Row, text
from streaming.queries.message_attributes import MessageId
from streaming.queries.vhosts.changes import DEPLOYED, changed_name, what_changed
from streaming.queries.vhosts.releases import deaths_around, release_of
from topology.sentences import say

_ALL_KINDS: Final = "'redrive', 'purged', 'erased', 'topology'"


def audit(view: View) -> Answer:
    """Show the actions, the latest first."""
    name = view.text("message")
    action = view.one_of("action", "", *ACTIONS) or None
    user, queue = view.text("user"), view.text("queue")
    until = view.instant("until")
    common = {
        "actions": ACTIONS,
        "action": action,
        "user": user,
        "queue": queue,
        "until": until.isoformat() if until else None,
        "size": PAGE_ROWS,
    }
    if name is not None:
        message = MessageId.parse(name)
        if message is None:
            what = say(
                "message: expected an id such as 1/0/42, not %(given)s", given=repr(name[:40])
            )
            raise Refused(400, what)
        view.command = view.dlx("dead-letters", "show", names=[name], vhost=False)
        rows = [row for row in actions_on(view.tables, message) if view.sees(row["vhost"])]
        return {**common, "message": name, "rows": _named(rows), "total": len(rows)}
    view.command = _command(view, action, user, queue)
    found = list_actions(
        view.tables,
        action=action,
        user=user,
        queue=queue,
        vhost=view.vhost,
        whole=view.user.administrator,
        until=until,
        first=(view.page - 1) * PAGE_ROWS,
        count=PAGE_ROWS,
    )
    rows = _named(found.rows)
    return {**common, "message": None, "rows": _with_deaths(view, rows), "total": found.total}


def _named(rows: list[Row]) -> list[Row]:
    return [
        {
            **row,
            "name": changed_name(row["detail"] or {}),
            "said": what_changed(row["detail"]) if row["kind"] == "topology" else row["kind"],
            "told": told(row["detail"]),
            "earlier": just_before(row["at"]) if _is_of_topology(row) else None,
        }
        for row in rows
    ]


def _with_deaths(view: View, rows: list[Row]) -> list[Row]:
    """Rows with the release that they note, and the deaths before and after it."""
    noted = [row for row in rows if row["what"] == DEPLOYED]
    found = [release_of(row["vhost"], row["at"], row["detail"], row["user"]) for row in noted]
    end = view.known_until
    around = view.once(f"around {found} {end}", lambda tables: deaths_around(tables, found, end))
    of_row = {id(row): pair for row, *pair in zip(noted, found, around, strict=True)}
    return [
        {**row, "release": release, "around": deaths}
        for row in rows
        for release, deaths in [of_row.get(id(row), (None, None))]
    ]


def _is_of_topology(row: Row) -> bool:
    """Whether it changed what is declared."""
    return row["kind"] == "topology" and is_drawn(str(row["what"] or ""))


def _command(view: View, action: str | None, user: str | None, queue: str | None) -> str:
    chosen = CONDITIONS[action] if action else f"kind IN ({_ALL_KINDS})"
    sql = 'SELECT "at", vhost, kind, "user", queue, reason, detail FROM events WHERE '
    conditions = [chosen]
    conditions += [f"vhost = {text(view.vhost)}"] if view.vhost else []
    conditions += [f'"user" = {text(user)}'] if user else []
    conditions += [on_queue(queue)] if queue else []
    where = " AND ".join(conditions)
    return view.dlx("query", f'{sql}{where} ORDER BY "at" DESC', vhost=False)
