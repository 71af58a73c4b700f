"""What the play's Delta tables say: which copies were unacked, and what was not understood."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
from deltalake import DeltaTable

from streaming.broker.events import ENDINGS, Kind

_MOVES = ENDINGS | {Kind.DELIVERED, Kind.REQUEUED, Kind.HELD}


class Moment(NamedTuple):
    """A vhost, when its next event was to have this number."""

    vhost: str
    event_seq: int


def unacked_copies(tables: Path, moments: Iterable[Moment]) -> dict[str, set[int]]:
    """The copies of each vhost that were unacked at a moment: last delivered, and not yet settled.

    Returns:
        vhost -> copy ids.
    """
    found: dict[str, set[int]] = {moment.vhost: set() for moment in moments}
    rows = _query(
        tables / "events",
        """
        select vhost, copy_id
        from read_parquet($files, union_by_name = true)
        join (select unnest($vhosts) as vhost, unnest($seqs) as event_seq) using (vhost)
        where seq < event_seq and copy_id is not null and list_contains($moves, kind)
        group by vhost, copy_id
        having arg_max(kind, seq) = 'delivered'
        """,
        vhosts=[moment.vhost for moment in moments],
        seqs=[moment.event_seq for moment in moments],
        moves=[kind.name.lower() for kind in _MOVES],
    )
    for vhost, copy_id in rows:
        found[vhost].add(copy_id)
    return found


def quarantined(tables: Path) -> list[str]:
    """What was not understood, in words."""
    rows = _query(
        tables / "quarantine",
        "select cause, detail from read_parquet($files, union_by_name = true) order by all",
    )
    return [f"{cause}: {detail}" for cause, detail in rows]


def _query(table: Path, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
    if not DeltaTable.is_deltatable(str(table)):
        return []
    files = DeltaTable(str(table)).file_uris()
    if not files:
        return []
    with duckdb.connect() as connection:
        return connection.execute(sql, {"files": files, **parameters}).fetchall()
