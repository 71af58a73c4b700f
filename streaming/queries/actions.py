"""Who did what, and why: redrives, purges, erasures, and changes of the topology and the policies.

The events of a batch have the user of each command. What many copies shared is one row: a purge.
"""

from datetime import datetime
from typing import Final

import msgspec

from streaming.queries.duckdb_tables import Row, Tables, iso, text
from streaming.queries.message_attributes import MessageId, document

WHO: Final = (
    """coalesce("user", nullif(regexp_extract(channel, '^management (.+) [0-9]+$', 1), ''))"""
)
"""Who sent a command, in SQL: by the management API the operator does, for the user it names."""

_WHAT: Final = "(detail ->> '$.what')"
_NAMED: Final = "concat_ws(' ', detail ->> '$.name', detail ->> '$.version')"
_POLICIES: Final = f"{_WHAT} LIKE '%policy%'"
_PERMISSIONS: Final = f"{_WHAT} LIKE '%permission%'"
_DEPLOYMENTS: Final = f"{_WHAT} = 'deployed'"
OF_NO_VHOST: Final = ("user", "global-parameter")
"""Components of parameters of all vhosts: not everyone may know who else the users are."""

CONDITIONS: Final = {
    "redrives": "kind = 'redrive'",
    "purges": "kind = 'purged'",
    "erasures": "kind = 'erased'",
    "deployments": f"kind = 'topology' AND {_DEPLOYMENTS}",
    "policies": f"kind = 'topology' AND {_POLICIES}",
    "permissions": f"kind = 'topology' AND {_PERMISSIONS}",
    "definitions": f"kind = 'topology' AND NOT {_POLICIES} AND NOT {_PERMISSIONS} "
    f"AND NOT {_DEPLOYMENTS}",
}
"""Which events are of each action, in SQL."""

ACTIONS: Final = tuple(CONDITIONS)
"""What can be chosen."""

_COLUMNS: Final = (
    *("batch_id", "vhost", "lane", "seq", "at", "kind", "message_id", "queue", "reason", "number"),
    *("user", "channel", "detail"),
)
_LOG: Final = f"""
    SELECT "at", batch_id, vhost, kind, {WHO} AS "user", channel, queue, reason,
           coalesce(number, 1) AS number, detail ->> '$.what' AS what, detail, min(seq) AS seq
    FROM actions WHERE kind IN ('redrive', 'topology', 'erased') GROUP BY ALL
    UNION ALL
    SELECT "at", batch_id, vhost, kind, {WHO} AS "user", channel, queue, reason, count(*), 'purged',
           NULL, min(seq)
    FROM actions WHERE kind = 'purged' GROUP BY ALL
"""
_OF_MESSAGE: Final = """
    WITH told AS (
        SELECT vhost, detail ->> '$.redrive' AS redrive, arg_min("user", seq) AS "user",
               arg_min(reason, seq) AS reason
        FROM actions WHERE kind = 'redrive' AND detail ->> '$.what' = 'requested' GROUP BY ALL)
    SELECT one."at", one.batch_id, one.vhost, one.kind, one.queue, one.seq, one.channel,
           one.number, one.kind AS what, one.detail,
           coalesce(told."user", one."user") AS "user", coalesce(told.reason, one.reason) AS reason
    FROM actions AS one LEFT JOIN told
        ON told.vhost = one.vhost AND told.redrive = one.detail ->> '$.redrive'
    WHERE one.kind IN ('redriven', 'republished', 'discarded', 'skipped', 'purged', 'deleted')
    AND {message} ORDER BY one.seq DESC
"""


class ActionLog(msgspec.Struct, frozen=True):
    """One page of the actions, the latest first.

    Attributes:
        total: how many there are.
        rows: `at`, `batch_id`, `vhost`, `kind`, `what`, `user`, `channel`, `queue`, `reason`,
            `number` and `detail`.
    """

    total: int
    rows: list[Row]


def list_actions(
    tables: Tables,
    *,
    action: str | None = None,
    user: str | None = None,
    queue: str | None = None,
    named: str | None = None,
    vhost: str | None = None,
    whole: bool = True,
    until: datetime | None = None,
    first: int = 0,
    count: int = 100,
) -> ActionLog:
    """List actions.

    Args:
        action: one of ACTIONS; None: all.
        queue: those on one queue: its purges, declarations, bindings and deletions.
        named: those about a name that contains this text, with a version if it has one.
        whole: whether those of no vhost are wanted too: erasures, and changes of users and global
            parameters.
        until: none that is later.
        first: how many rows precede the page.
    """
    tables.view("events", columns=_COLUMNS, view="actions")
    conditions = ["true"]
    if action is not None:
        conditions.append(CONDITIONS[action])
    if user is not None:
        conditions.append(f'"user" = {text(user)}')
    if queue is not None:
        conditions.append(on_queue(queue))
    if named is not None:
        conditions.append(f"contains(lower({_NAMED}), lower({text(named)}))")
    if vhost is not None:
        conditions.append(f"vhost = {text(vhost)}")
    if not whole:
        others = ", ".join(map(text, OF_NO_VHOST))
        component = "coalesce(detail ->> '$.component', '')"
        conditions.append(f"vhost IS NOT NULL AND {component} NOT IN ({others})")
    if until is not None:
        conditions.append(f""""at" <= CAST('{until.isoformat()}' AS TIMESTAMPTZ)""")
    log = f"FROM ({_LOG}) WHERE {' AND '.join(conditions)}"
    [(total,)] = tables.values(f"SELECT count(*) {log}")
    rows = tables.rows(
        f'SELECT * {log} ORDER BY "at" DESC, vhost, seq DESC LIMIT {count} OFFSET {first}'
    )
    return ActionLog(int(total), [_plain(row) for row in rows])


def on_queue(name: str) -> str:
    """The condition in SQL that an action was on a queue of this name."""
    of_topology = f"{_WHAT} IN ('queue_declared', 'queue_deleted', 'bound', 'unbound')"
    is_named = f"{of_topology} AND (detail ->> '$.name') = {text(name)}"
    return f"(queue = {text(name)} OR ({is_named}))"


def actions_on(tables: Tables, message: MessageId) -> list[Row]:
    """List what was done to one message: by which redrive or purge, by whom, and why.

    Only events from its arrival on are read, if the tables still have the message.
    """
    near = tables.files("messages", {"offset": message.offset}, inclusive=True)
    columns = ["batch_id", "topic_number", "partition", "offset"]
    view = tables.view("messages", files=near, columns=columns, view=tables.new_name("messages"))
    [(arrived,)] = tables.values(
        f"SELECT min(batch_id) FROM {view} "
        'WHERE topic_number = ? AND "partition" = ? AND "offset" = ?',
        message,
    )
    files = None
    if arrived is not None:
        files = tables.files("events", {"batch_id": arrived}, inclusive=True)
    tables.view("events", files=files, columns=_COLUMNS, view="actions")
    members = ("topic_number", '"partition"', '"offset"')
    parts = (
        f"one.message_id.{name} = {value}" for name, value in zip(members, message, strict=True)
    )
    rows = tables.rows(_OF_MESSAGE.format(message=" AND ".join(parts)))
    return [_plain(row) for row in rows]


def _plain(row: Row) -> Row:
    detail = row["detail"]
    return {
        **row,
        "at": iso(row["at"]),
        "detail": document(detail) if isinstance(detail, str) else detail,
    }
