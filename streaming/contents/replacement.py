"""Replace files of a table, or remove them, and say so in Delta's log."""

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from streaming.ledger.errors import CommitError
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import COMPACTED_PREFIX, commit_onto
from streaming.ledger.write.data_file import ranges
from streaming.ledger.write.log_actions import add_action, removal
from streaming.ledger.write.parquet_layout import write_row_groups
from streaming.storage.location import Location

KEPT: Final = f"{COMPACTED_PREFIX}kept-"
"""The names of files with the rows that stay begin with this."""

_ATTEMPTS: Final = 20


def _kept_name(digest: str) -> str:
    return f"{KEPT}{digest}.parquet"


def replace_rows(
    place: Location,
    spec: TableSpec,
    paths: Sequence[str],
    rows: pa.Table,
    *,
    is_new: bool = False,
    check: Callable[[DeltaTable], None] | None = None,
) -> None:
    """Replace files by one with these rows, or by nothing.

    Delta's log says that rows left the table (`dataChange`): streams that read it need the option
    `skipChangeCommits`, and `ignoreDeletes` is enough if no row is new.

    Args:
        is_new: whether a row is in none of the files, or is changed.
        check: called with the version that the commit follows, without another in between; what it
            raises prevents the commit.

    Raises:
        CommitError: the files kept changing, or left the table.
    """
    now_ms = time.time_ns() // 1_000_000
    added = []
    if rows.num_rows:
        storage = place.storage()
        digest = hashlib.sha256("\n".join(sorted(paths)).encode())
        digest.update(str(time.time_ns()).encode())
        path = _kept_name(digest.hexdigest()[:32])
        storage.create(path, write_row_groups(rows, spec.schema, {"dlx.table": spec.name}))
        size = storage.size(path)
        assert size is not None, path
        found = ranges(spec, rows)
        added = [
            add_action(
                spec, path, size, rows.num_rows, found, modified_ms=now_ms, data_change=is_new
            )
        ]
    removed = [removal(path, None, now_ms, data_change=True) for path in paths]
    for _ in range(_ATTEMPTS):
        table = load_table(place)
        if not set(paths) <= set(ActiveFiles(table).paths):
            break
        if check is not None:
            check(table)
        try:
            commit_onto(table, spec, [*added, *removed])
        except CommitFailedError:
            continue
        return
    raise CommitError(f"{place.url}: other processes kept changing the table; run it again")
