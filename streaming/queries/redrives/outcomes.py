"""What became of redrives: each letter is followed by the events of its new copy."""

from typing import Final

import msgspec

from streaming.queries.as_of.contents import SQL_ENDINGS
from streaming.queries.duckdb_tables import QueryError, Row, Tables, iso
from streaming.queries.message_attributes import MessageId, document
from topology.suggestions import did_you_mean

_COLUMNS: Final = (
    *("vhost", "lane", "seq", "at", "kind", "message_id", "copy_id", "parent_copy_id", "queue"),
    *("reason", "user", "detail"),
)
_FATES: Final = f"""
    CREATE OR REPLACE TEMP TABLE redrive_fates AS
    WITH moves AS (
        SELECT vhost, lane, seq, "at", kind, message_id, copy_id, queue,
               detail ->> '$.redrive' AS redrive, detail ->> '$.edit' AS edit
        FROM redrive_log WHERE kind IN ('redriven', 'republished', 'discarded')),
    children AS (
        SELECT moves.vhost, moves.lane, moves.seq AS move_seq, born.copy_id, born.queue,
               born.message_id
        FROM moves JOIN redrive_log AS born ON born.vhost = moves.vhost AND born.lane = moves.lane
            AND born.parent_copy_id = moves.copy_id AND born.copy_id = born.seq
            AND born.seq > moves.seq
        WHERE moves.kind <> 'discarded'),
    endings AS (
        SELECT vhost, lane, copy_id, kind, reason, "at" FROM redrive_log
        WHERE kind IN {SQL_ENDINGS}),
    fates AS (
        SELECT vhost, lane, move_seq, children.queue AS went_to, children.message_id,
               endings.reason,
               CASE endings.kind WHEN 'consumed' THEN 'acked'
                   ELSE coalesce(endings.kind, 'waiting') END AS fate, endings."at" AS ended_at
        FROM children LEFT JOIN endings USING (vhost, lane, copy_id))
    SELECT moves.redrive, moves.vhost, moves.lane, moves.seq, moves."at" AS moved_at,
           moves.message_id, moves.copy_id, moves.queue AS came_from,
           string_agg(DISTINCT went_to, ', ' ORDER BY went_to) AS went_to,
           CASE WHEN moves.kind = 'discarded' THEN 'discarded'
                WHEN bool_or(fate = 'died') THEN 'died'
                WHEN bool_or(fate = 'waiting') THEN 'waiting'
                ELSE coalesce(min(fate), 'waiting') END AS fate,
           min(reason) FILTER (fate = 'died') AS reason, max(ended_at) AS ended_at,
           moves.edit, any_value(one.message_id) AS new_message
    FROM moves LEFT JOIN fates AS one
        ON one.vhost = moves.vhost AND one.lane = moves.lane AND one.move_seq = moves.seq
    GROUP BY moves.redrive, moves.vhost, moves.lane, moves.seq, moves."at", moves.message_id,
             moves.copy_id, moves.queue, moves.kind, moves.edit
"""
_REDRIVES: Final = """
    WITH told AS (
        SELECT vhost, lane, seq, "at", "user", reason, detail ->> '$.redrive' AS redrive,
               detail ->> '$.what' AS what, detail
        FROM redrive_log WHERE kind = 'redrive'),
    heads AS (
        SELECT redrive, vhost, min("at") AS requested_at, max("at") AS changed_at,
               arg_min("user", "at") AS "user",
               arg_min(reason, "at") FILTER (what = 'requested') AS reason,
               any_value(CAST(detail ->> '$.total' AS BIGINT)) FILTER (what = 'requested') AS total,
               any_value(detail ->> '$.options.action') FILTER (what = 'requested') AS action
        FROM told GROUP BY redrive, vhost),
    statuses AS (
        SELECT redrive, vhost, list(DISTINCT what) AS whats
        FROM (SELECT redrive, vhost, lane, arg_max(what, seq) AS what FROM told GROUP BY ALL)
        GROUP BY ALL),
    fates AS (
        SELECT redrive, vhost, count(*) AS moved, count(*) FILTER (fate = 'acked') AS acked,
               count(*) FILTER (fate = 'died') AS died,
               count(*) FILTER (fate = 'waiting') AS waiting
        FROM redrive_fates GROUP BY ALL),
    skips AS (
        SELECT vhost, detail ->> '$.redrive' AS redrive,
               count(*) FILTER (reason <> 'cap') AS skipped,
               count(*) FILTER (reason = 'cap') AS parked
        FROM redrive_log WHERE kind = 'skipped' GROUP BY ALL)
    SELECT heads.redrive AS id, heads.vhost, action, requested_at, changed_at, "user", reason,
           CASE WHEN list_contains(whats, 'stopped') THEN 'stopped'
                WHEN list_contains(whats, 'paused') THEN 'paused'
                WHEN list_contains(whats, 'requested') OR list_contains(whats, 'resumed')
                    THEN 'running'
                WHEN list_contains(whats, 'cancelled') THEN 'cancelled'
                ELSE 'finished' END AS status,
           total, coalesce(moved, 0) AS moved, coalesce(skipped, 0) AS skipped,
           coalesce(parked, 0) AS parked, coalesce(acked, 0) AS acked, coalesce(died, 0) AS died,
           coalesce(waiting, 0) AS waiting
    FROM heads JOIN statuses USING (redrive, vhost) LEFT JOIN fates USING (redrive, vhost)
    LEFT JOIN skips USING (redrive, vhost)
"""
LETTER_COLUMNS: Final = (
    *("message_id", "copy_id", "lane", "came_from", "went_to", "moved_at", "fate", "reason"),
    *("ended_at", "version"),
)


class RedriveOutcome(msgspec.Struct, frozen=True):
    """One redrive and its letters.

    Attributes:
        redrive: its row as `list_redrives` returns it.
        letters: moved letters, with their fate: acked, died (and why), waiting, or how else their
            copy ended; then skipped ones, whose fate is `skipped` or `parked`. `version` has the
            hashes of an edited letter, and the id of the message that it became.
        new_deaths: messages that died meanwhile where the letters went, and are none of them.
    """

    redrive: Row
    letters: list[Row]
    new_deaths: int


def list_redrives(tables: Tables, vhost: str | None = None) -> list[Row]:
    """List the redrives, the latest first; the counts are of letters."""
    _prepare(tables)
    found = tables.rows(
        f"FROM ({_REDRIVES}) WHERE vhost = coalesce(?, vhost) ORDER BY requested_at DESC, id",
        [vhost],
    )
    return [_plain(row) for row in found]


OUTCOMES: Final = ("acked", "died", "waiting", "discarded", "skipped", "parked")


def letters_by_outcome(tables: Tables) -> dict[tuple[str, str], int]:
    """Count the letters of all redrives by vhost and OUTCOMES, zero included."""
    found: dict[tuple[str, str], int] = {}
    for row in list_redrives(tables):
        for outcome in OUTCOMES:
            key = (row["vhost"], outcome)
            count = row.get(outcome, 0)
            if outcome == "discarded":
                count = row["moved"] if row["action"] == "discard" else 0
            found[key] = found.get(key, 0) + count
    return found


def outcome_of(tables: Tables, redrive_id: str, vhost: str | None = None) -> RedriveOutcome:
    """What became of one redrive.

    Raises:
        QueryError: there is no redrive of that id, or in several vhosts.
    """
    found = list_redrives(tables, vhost)
    matching = [row for row in found if row["id"] == redrive_id]
    if not matching:
        ids = [row["id"] for row in found]
        raise QueryError(
            f"there is no redrive {redrive_id!r}{did_you_mean(redrive_id, ids)}; "
            "`dlx redrives list` lists them"
        )
    if len(matching) > 1:
        names = ", ".join(repr(row["vhost"]) for row in matching)
        raise QueryError(f"redrive {redrive_id!r} is in the vhosts {names}: choose one vhost")
    [row] = matching
    parameters = [redrive_id, row["vhost"]]
    letters = tables.rows(
        "SELECT * FROM redrive_fates WHERE redrive = ? AND vhost = ? ORDER BY lane, seq",
        parameters,
    )
    skipped = tables.rows(
        """
        WITH skips AS (
            SELECT vhost, lane, seq, CAST(detail ->> '$.copy_id' AS BIGINT) AS copy_id, queue,
                   reason, "at"
            FROM redrive_log WHERE kind = 'skipped' AND detail ->> '$.redrive' = ? AND vhost = ?)
        SELECT skips.lane, skips.copy_id, skips.queue AS came_from,
               CASE skips.reason WHEN 'cap' THEN 'parked' ELSE 'skipped' END AS fate,
               skips.reason, skips."at" AS ended_at, born.message_id
        FROM skips LEFT JOIN redrive_log AS born ON born.vhost = skips.vhost
            AND born.lane = skips.lane AND born.seq = skips.copy_id
        ORDER BY skips.lane, skips.seq
        """,
        parameters,
    )
    shown = [_letter(one) for one in (*letters, *skipped)]
    return RedriveOutcome(row, shown, _new_deaths(tables, row))


def _new_deaths(tables: Tables, row: Row) -> int:
    there = "(SELECT * FROM redrive_fates WHERE redrive = ? AND vhost = ?)"
    own = [row["id"], row["vhost"]]
    [(count,)] = tables.values(
        f"""
        WITH begun AS (
            SELECT vhost, lane, min(seq) AS first FROM redrive_log
            WHERE kind = 'redrive' AND detail ->> '$.redrive' = ? AND vhost = ? GROUP BY ALL)
        SELECT count(*) FROM redrive_log AS death JOIN begun USING (vhost, lane)
        WHERE kind = 'died' AND seq > first
        AND queue IN (SELECT unnest(string_split(went_to, ', ')) FROM {there})
        AND message_id NOT IN (SELECT message_id FROM {there} UNION ALL
            SELECT new_message FROM {there} WHERE new_message IS NOT NULL)
        """,
        [*own, *own, *own, *own],
    )
    return int(count)


def _prepare(tables: Tables) -> None:
    tables.view("events", columns=_COLUMNS, view="redrive_log")
    tables.connection.execute(_FATES)


def _plain(row: Row) -> Row:
    return {
        **row,
        "requested_at": iso(row["requested_at"]),
        "changed_at": iso(row["changed_at"]),
    }


def _letter(row: Row) -> Row:
    message = MessageId.of(row.get("message_id"))
    known = {name: row.get(name) for name in LETTER_COLUMNS}
    edit = document(row.get("edit"))
    if edit is not None and edit["original"] != edit["version"]:
        known["version"] = {**edit, "message": str(MessageId(*edit["message"]))}
    return {
        **known,
        "message_id": None if message is None else str(message),
        "moved_at": iso(known["moved_at"]),
        "ended_at": iso(known["ended_at"]),
    }
