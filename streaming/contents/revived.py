"""Messages that a redrive puts into queues again, against whatever removes or erases their rows.

    removal:  decide -- load messages -- redriven since? -- commit on exactly that version
    batch:    read messages -- fold -- commit messages -- commit events -- rows still there?

A letter that is in no queue, and the new version of an edited one, may be removed from `messages`
or erased. Both sides run at once, in two processes, and Delta locks no two tables. So a removal is
committed only onto a version of `messages` all of whose batches the events show (`redriven_since`);
and a batch that has put such letters into queues commits `messages` even without rows of its own,
and looks for their rows once its events are committed (`put_back`). The later one sees the other:

- the removal is last: the batch's own commit of `messages` comes before it, so the removal waits
  for that batch's events, finds the letter, and leaves its row alone;
- the batch is last: it finds the removal in the log of `messages`, and the rows in the old files.

Replay: a batch that runs again finds the letters in the version of `messages` in which it found
them first (`pipeline.rows.looked_up`), and looks for their rows again; rows that are there stay as
they are.
"""

import logging
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from streaming.contents.replacement import replace_rows
from streaming.contents.revived_keys import Key
from streaming.ledger.errors import CommitError
from streaming.ledger.read.message_search import KEY, key_name, keys_of
from streaming.ledger.read.table_files import ActiveFiles, Ints
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import conformed
from streaming.ledger.write.durability import LOG
from streaming.queries.duckdb_tables import Tables
from streaming.storage.location import Location
from streaming.storage.port import Storage

_MESSAGES: Final = "messages"
_ATTEMPTS: Final = 20
_WAIT_S: Final = 0.1
_SINCE: Final = """
    SELECT kind, detail ->> '$.edit.message' AS version, message_id.topic_number,
           message_id."partition", message_id."offset"
    FROM events WHERE batch_id > ? AND kind IN ('redrive', 'republished', 'redriven')
"""

_LOOKED_AT: Final = 1_000
"""How many of the latest commits of `messages` a batch that runs again looks at."""


class _File(msgspec.Struct, rename="camel"):
    path: str
    data_change: bool = True


class _Entry(msgspec.Struct):
    add: _File | None = None
    remove: _File | None = None


_entry = msgspec.json.Decoder(_Entry)

logger = logging.getLogger(__name__)


class Redriven(NamedTuple):
    """What redrives did after a batch.

    Attributes:
        batch_id: the last batch that was looked at.
        any: whether they did anything.
        keys: the messages that they put into queues, and that were in none.
    """

    batch_id: int
    any: bool
    keys: set[Key]


def redriven_since(root: Location, table: DeltaTable, query_id: str, batch_id: int) -> Redriven:
    """What redrives did after a batch, in every batch that this version of a table has.

    Raises:
        CommitError: the job has committed half of a batch, and does not go on.
    """
    wanted = table.transaction_version(query_id)
    for attempt in range(_ATTEMPTS):
        with closing(Tables(root.url, root.options, threads=1)) as tables:
            last = tables.table("events").transaction_version(query_id)
            if wanted is None or (last is not None and last >= wanted):
                return _redriven(tables, batch_id, last or 0)
        time.sleep(_WAIT_S * min(attempt + 1, 5))
    raise CommitError(
        f"{root.url}: batch {wanted} is committed in part, and may put messages into queues again; "
        "start the job, which finishes it, and run this again"
    )


def _redriven(tables: Tables, batch_id: int, last: int) -> Redriven:
    columns = ["batch_id", "kind", "message_id", "detail"]
    files = tables.files("events", {"batch_id": batch_id})
    tables.view("events", files=files, columns=columns)
    rows = tables.values(_SINCE, [batch_id])
    keys: set[Key] = set()
    for kind, version, topic_number, partition, offset in rows:
        if version is not None:
            keys.add(msgspec.json.decode(version, type=Key))
        elif kind == "republished":
            keys.add((topic_number, partition, offset))
    return Redriven(last, bool(rows), keys)


def put_back(root: Location, keys: Iterable[Key], version: int | None) -> int:
    """Put rows back that left `messages`, or lost their data, while a batch needed them again.

    They are still in the files that left the table, which only vacuum deletes.

    Args:
        keys: the messages.
        version: of `messages`, from before the batch; None: not known.

    Returns:
        How many rows were put back.

    Raises:
        CommitError: other processes kept changing the table.
    """
    place, spec = root / _MESSAGES, TABLES[_MESSAGES]
    wanted = np.array(sorted(keys), np.int64).reshape(-1, len(KEY))
    for _ in range(_ATTEMPTS):
        table = load_table(place)
        since = max(table.version() - _LOOKED_AT, -1) if version is None else version
        removed, added = _changes(place.storage(), since, table.version())
        lost = _whole(_read(place, removed, wanted))
        if not lost.num_rows:
            return 0
        files = [path for path in ActiveFiles(table).paths if path in added]
        blank = []
        for path in files:
            rows = _read(place, [path], wanted)
            if rows["body"].null_count:
                blank.append(path)
            lost = lost.filter(~_among(lost, keys_of(_whole(rows))))
        if not lost.num_rows:
            return 0
        pieces = [_read(place, [path], None) for path in blank]
        pieces = [rows.filter(~_among(rows, keys_of(lost))) for rows in pieces]
        try:
            replace_rows(place, spec, blank, pa.concat_tables([lost, *pieces]), is_new=True)
        except CommitError:  # compacted meanwhile
            continue
        logger.warning(
            "%d messages were erased, or removed by retention, while a redrive put them into "
            "queues again; the first is %s. Their rows are in the table messages again. If they "
            "were to be erased, repeat that when no queue has them",
            lost.num_rows,
            key_name(keys_of(lost)[0]),
        )
        return int(lost.num_rows)
    raise CommitError(f"{place.url}: other processes kept changing the table; run it again")


def _changes(storage: Storage, since: int, until: int) -> tuple[list[str], set[str]]:
    """The files that rows left for good, and all that were added, after a version of a table."""
    removed: dict[str, None] = {}
    added: set[str] = set()
    for version in range(since + 1, until + 1):
        try:
            with storage.open(f"{LOG}/{version:020}.json") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:  # cleaned up
            continue
        for entry in map(_entry.decode, lines):
            if entry.add is not None:
                added.add(entry.add.path)
            elif entry.remove is not None and entry.remove.data_change:
                removed[entry.remove.path] = None
    return list(removed), added


def _read(place: Location, paths: Iterable[str], keys: Ints | None) -> pa.Table:
    """The rows of some files; only those with these keys, unless they are None."""
    schema = TABLES[_MESSAGES].schema.remove_metadata()
    pieces = [schema.empty_table()]
    for path in paths:
        with suppress(FileNotFoundError), place.storage().open(path) as file:
            rows = conformed(pq.ParquetFile(file).read(), schema)
            pieces.append(rows if keys is None else rows.filter(_among(rows, keys)))
    return pa.concat_tables(pieces)


def _whole(rows: pa.Table) -> pa.Table:
    """The rows that have their data, each message once."""
    rows = rows.filter(rows["body"].is_valid())
    _keys, first = np.unique(keys_of(rows), axis=0, return_index=True)
    return rows.take(np.sort(first))


def _among(rows: pa.Table, keys: Ints) -> Any:
    """Which rows have one of these keys, one bool per row."""
    wanted = {tuple(key) for key in keys.tolist()}
    return np.array([tuple(key) in wanted for key in keys_of(rows).tolist()], np.bool_)
