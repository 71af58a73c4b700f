"""Describe the tables: size, files, last batch."""

from collections.abc import Iterator
from typing import Final

import msgspec

from streaming.queries.as_of.contents import CONTENTS, query_ids
from streaming.queries.duckdb_tables import Tables

NAMES: Final = (
    *("messages", "events", "dead_letters", "queue_contents", "quarantine"),
    *("snapshots", "snapshot_contents", "search_keys"),
)


class TableInfo(msgspec.Struct, frozen=True):
    """One table.

    Attributes:
        last_batch: the latest query's last batch in the table; None if it has none. An empty batch
            leaves no trace in a table, so the tables' last batches may differ.
        behind: for queue_contents, the number of batches in `events` not applied yet.
    """

    name: str
    version: int
    files: int
    rows: int
    bytes: int
    last_batch: int | None
    behind: int | None = None


def describe(tables: Tables) -> list[TableInfo]:
    """Describe the existing tables."""
    found = list(_tables(tables))
    if not found:
        tables.table("events")
    return found


def _tables(tables: Tables) -> Iterator[TableInfo]:
    queries = query_ids(tables) if tables.has("events") else []
    last_event = _last(tables, "events", queries)
    for name in NAMES:
        if not tables.has(name):
            continue
        files = len(tables.of_files(name, "path") or ())
        rows, size = (
            sum(tables.of_files(name, each) or ()) for each in ("num_records", "size_bytes")
        )
        last = _last(tables, name, queries)
        behind = None
        if name == CONTENTS and last_event is not None:
            behind = last_event - (-1 if last is None else last)
        version = tables.table(name).version()
        yield TableInfo(name, version, files, rows, size, last, behind)


def _last(tables: Tables, name: str, queries: list[str]) -> int | None:
    if not tables.has(name):
        return None
    table = tables.table(name)
    versions = [table.transaction_version(query_id) for query_id in queries]
    return max((version for version in versions if version is not None), default=None)
