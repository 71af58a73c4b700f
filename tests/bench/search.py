"""How fast a value is found among many messages: the index of `[tables] search`.

    python -m tests.bench.search FOLDER [--messages 100_000_000]

The index is written as the job leaves it: files of the size that compaction makes, each sorted by
key, and the newest, small ones. Keys are random, as hashes are.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Coded, Constant, build_table
from streaming.ledger.write.data_file import DataFile, ranges
from streaming.ledger.write.parquet_layout import write_row_groups
from streaming.ledger.write.table_writer import TableWriter
from streaming.protocol.search_keys import SearchPaths, key_of
from streaming.queries.duckdb_tables import Tables
from streaming.queries.search_index import SEARCH_KEYS, messages_with
from streaming.storage.location import Location

SPEC = TABLES[SEARCH_KEYS]
QUERY_ID = "6f0e9bd2-0000-4000-8000-000000000001"
LARGE_ROWS = 2_000_000
SMALL_ROWS = 2_000
SMALL_FILES = 60
PARTITIONS = 8
BODY = b'{"order":"shop-%09d","customer":"c-17","lines":[{"sku":"a","n":1}],"note":"' + b"x" * 100


def write(place: Location, messages: int) -> None:
    """Write the index of one path."""
    writer = TableWriter(place, SEARCH_KEYS)
    chance = np.random.default_rng(17)
    files: list[DataFile] = []
    done = 0
    while done < messages:
        left = messages - done
        small = SMALL_ROWS * SMALL_FILES
        rows = min(LARGE_ROWS, left - small) if left > small else min(SMALL_ROWS, left)
        keys = chance.integers(-(2**63), 2**63 - 1, rows, np.int64)
        if not done:
            keys[rows // 2] = key_of("shop-17")
        order = np.argsort(keys)
        offsets = np.arange(done, done + rows) // PARTITIONS
        columns = {
            "query_id": Constant(QUERY_ID),
            "batch_id": (np.arange(rows) * 100 // rows + len(files) * 100)[order],
            "vhost": Constant("/"),
            "topic_number": np.zeros(rows, np.int32),
            "partition": (np.arange(rows) % PARTITIONS).astype(np.int32)[order],
            "offset": offsets[order],
            "path": Coded(np.zeros(rows, np.int32), ["body:$.order"]),
            "key": keys[order],
        }
        table = build_table(SPEC.schema, columns, rows)
        path = f"keys-{len(files):06}.parquet"
        storage = (place / SEARCH_KEYS).storage()
        storage.create(path, write_row_groups(table, SPEC.schema, {}))
        size = storage.size(path) or 0
        files.append(DataFile(SEARCH_KEYS, path, size, rows, "", ranges(SPEC, table)))
        done += rows
    writer.commit_batch(QUERY_ID, len(files) * 100, files)
    size = sum(file.size for file in files)
    print(
        f"{messages:,} messages: {len(files)} files, {size / 1e9:.2f} GB, "
        f"{size / messages:.1f} bytes each"
    )


def ask(root: str, value: str) -> tuple[float, int]:
    """Ask once, as a page does, from opening the tables on."""
    started = time.perf_counter()
    with Tables(root) as tables:
        found = messages_with(tables, value, 51)
    return time.perf_counter() - started, len(found)


def main() -> None:
    """Write the index, unless it is there, and search it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=100_000_000)
    options = parser.parse_args()
    if not (options.folder / SEARCH_KEYS).is_dir():
        started = time.perf_counter()
        write(Location(str(options.folder)), options.messages)
        print(f"written in {time.perf_counter() - started:.0f} s")
    for value, expected in (("shop-17", 1), ("nothing", 0)):
        taken = []
        for _ in range(10):
            seconds, count = ask(str(options.folder), value)
            assert count == expected, (value, count)
            taken.append(seconds)
        print(
            f"{value}: first {taken[0]:.2f} s, median {statistics.median(taken):.2f} s, "
            f"longest {max(taken):.2f} s"
        )
    paths = SearchPaths(["body:$.order", "header:tenant"])
    bodies = [BODY % number + b'"}' for number in range(100_000)]
    started = time.perf_counter()
    for body in bodies:
        for _path, found in paths.values(body, b'{"tenant":"acme","trace":"abc"}', None):
            key_of(found)
    print(f"reading two values: {(time.perf_counter() - started) * 10:.1f} us a message")


if __name__ == "__main__":
    main()
