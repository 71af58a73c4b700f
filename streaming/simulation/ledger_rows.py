"""What a run's Delta tables say: which copies were unacked, and which records were malformed."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
from deltalake import DeltaTable

from streaming.broker.events import ENDINGS, Kind

_MOVES = ENDINGS | {Kind.DELIVERED, Kind.REQUEUED, Kind.HELD}


class EventPosition(NamedTuple):
    """The moment before a vhost's event with a sequence number."""

    vhost: str
    event_seq: int


def unacked_copies(tables: Path, positions: Iterable[EventPosition]) -> dict[str, set[int]]:
    """The copies of each vhost that were unacked at a position: delivered and not yet settled.

    Returns:
        vhost -> copy ids.
    """
    found: dict[str, set[int]] = {position.vhost: set() for position in positions}
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
        vhosts=[position.vhost for position in positions],
        seqs=[position.event_seq for position in positions],
        moves=[kind.name.lower() for kind in _MOVES],
    )
    for vhost, copy_id in rows:
        found[vhost].add(copy_id)
    return found


def quarantined(tables: Path) -> list[str]:
    """Why each quarantined record was refused."""
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
