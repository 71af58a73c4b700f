"""Small rows of the ledger's tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import DEAD_LETTERS, EVENTS, MESSAGES, QUARANTINE, TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.write.arrow_columns import Constant, build_table
from streaming.ledger.write.data_file import DataFile, DataFileName, write_data_file
from streaming.storage.local import LocalStorage
from streaming.storage.location import Location

QUERY = "0f8d2c1e-query"


def a_place(folder: Path) -> Location:
    return Location(str(folder / "tables"))


def messages(
    offsets,
    *,
    batch_id=0,
    partition=0,
    topic_number=1,
    query_id=QUERY,
    body=lambda offset: b"body %d" % offset,
) -> pa.Table:
    offsets = list(offsets)
    return build_table(
        MESSAGES,
        {
            "query_id": Constant(query_id),
            "batch_id": Constant(batch_id),
            "vhost": Constant("/"),
            "lane": Constant(0),
            "topic_number": Constant(topic_number),
            "partition": Constant(partition),
            "offset": offsets,
            "origin.topic": Constant("orders"),
            "origin.offset": offsets,
            "exchange": Constant("orders"),
            "routing_key": [f"order.{offset % 3}" for offset in offsets],
            "body_bytes": [len(body(offset)) for offset in offsets],
            "body": [body(offset) for offset in offsets],
        },
        len(offsets),
    )


def quarantined(offsets, *, batch_id=0, query_id=QUERY) -> pa.Table:
    offsets = list(offsets)
    return build_table(
        QUARANTINE,
        {
            "query_id": Constant(query_id),
            "batch_id": Constant(batch_id),
            "topic_number": Constant(1),
            "partition": Constant(0),
            "offset": offsets,
            "cause": Constant("bad_json"),
            "record_value": [b"{%d" % offset for offset in offsets],
        },
        len(offsets),
    )


def events(seqs, *, batch_id=0, lane=0, query_id=QUERY) -> pa.Table:
    seqs = list(seqs)
    return build_table(
        EVENTS,
        {
            "query_id": Constant(query_id),
            "batch_id": Constant(batch_id),
            "vhost": Constant("/"),
            "lane": Constant(lane),
            "seq": seqs,
            "at": np.array(seqs, np.int64) * 1500,
            "kind": ["enqueued" if seq % 2 else "died" for seq in seqs],
            "message_id.topic_number": Constant(1),
            "message_id.partition": Constant(0),
            "message_id.offset": seqs,
            "queue": [f"work-{seq % 2}" for seq in seqs],
        },
        len(seqs),
    )


def dead_letters(seqs, *, batch_id=0, lane=0, query_id=QUERY) -> pa.Table:
    seqs = list(seqs)
    return build_table(
        DEAD_LETTERS,
        {
            "query_id": Constant(query_id),
            "batch_id": Constant(batch_id),
            "vhost": Constant("/"),
            "lane": Constant(lane),
            "seq": seqs,
            "at": np.array(seqs, np.int64) * 1500,
            "queue": Constant("work"),
            "reason": Constant("expired"),
            "body": [b"body %d" % seq for seq in seqs],
        },
        len(seqs),
    )


def a_batch_row(batch_id: int, *, query_id=QUERY, now_ms=None, **detail) -> BatchRow:
    return BatchRow(
        query_id, batch_id, 1_000 * batch_id if now_ms is None else now_ms, BatchDetail(**detail)
    )


def publish(
    root: Location, name: str, table: pa.Table, *, partition=0, first=0, storage=None
) -> DataFile:
    """Write rows as a data file named after their ids."""
    written = write_data_file(
        storage or (root / name).storage(),
        TABLES[name],
        DataFileName(
            table["query_id"][0].as_py(),
            table["batch_id"][0].as_py(),
            name,
            f"{partition:05}",
            first,
        ),
        table,
    )
    assert written is not None
    return written


def rows_of(root: Location, name: str, *, without=()) -> list[dict[str, Any]]:
    """All rows of a table, in an order that does not depend on its files."""
    table = load_table(root / name).to_pyarrow_table()
    rows = [
        {key: value for key, value in row.items() if key not in without}
        for row in table.to_pylist()
    ]
    return sorted(rows, key=repr)


def paths_of(root: Location, name: str) -> list[str]:
    return sorted(ActiveFiles(load_table(root / name)).paths)


def local(root: Location, name: str) -> LocalStorage:
    storage = (root / name).storage()
    assert isinstance(storage, LocalStorage)
    return storage


def tables_of(batch_id, *, seqs=range(4)):
    return {
        "messages": messages(seqs, batch_id=batch_id),
        "quarantine": quarantined(seqs, batch_id=batch_id),
        "dead_letters": dead_letters(seqs, batch_id=batch_id),
        "events": events(seqs, batch_id=batch_id),
    }
