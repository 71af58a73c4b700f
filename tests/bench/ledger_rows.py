"""The cost of a row: building, fingerprinting and writing a table, and looking up a body.

    python -m tests.bench.ledger_rows [--rows 100000] [--body-bytes 200]

It prints microseconds of CPU time per row, the best of several runs.
"""

import argparse
import functools
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from streaming.ledger.read.body_reader import BodyReader, Places
from streaming.ledger.read.table_files import ActiveFiles, Ints
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.upkeep.compaction import compact, small_files
from streaming.ledger.write.arrow_columns import Coded, Column, Constant, Lists, build_table
from streaming.ledger.write.data_file import (
    DRIVER,
    DataFile,
    DataFileName,
    coded_columns,
    fingerprint,
    write_data_file,
)
from streaming.ledger.write.table_writer import TableWriter
from streaming.storage.location import Location
from tests.bench.output import say

RUNS = 5
QUERY = "bench"


def cost(rows: int, work: Callable[[], object]) -> float:
    """Microseconds of CPU time per row."""
    best = float("inf")
    for _ in range(RUNS):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best * 1e6 / rows


def columns_of(name: str, rows: int, bodies: pa.Array) -> dict[str, Column]:
    numbers = np.arange(rows)
    queues = Coded(numbers % 10, [f"work-{n}" for n in range(10)])
    batch: dict[str, Column] = {"query_id": Constant(QUERY), "batch_id": Constant(0)}
    shard: dict[str, Column] = {"vhost": Constant("/"), "lane": Constant(0)}
    body: dict[str, Column] = {"body": bodies, "body_bytes": np.full(rows, len(bodies[0].as_py()))}
    if name == "messages":
        return {
            **batch,
            **shard,
            **body,
            "topic_number": Constant(1),
            "partition": Constant(0),
            "offset": numbers,
            "origin.topic": Constant("orders"),
            "origin.offset": numbers,
            "origin.timestamp": numbers * 1000,
            "exchange": Constant("orders"),
            "routing_key": queues,
            "properties.delivery_mode": Constant(2),
        }
    event: dict[str, Column] = {
        **batch,
        **shard,
        "seq": numbers,
        "at": numbers * 1000,
        "message_id.topic_number": Constant(1),
        "message_id.partition": Constant(0),
        "message_id.offset": numbers,
        "copy_id": numbers,
        "queue": queues,
    }
    if name == "events":
        return {**event, "kind": Coded(numbers % 3, ["enqueued", "died", "acked"])}
    death: dict[str, Column] = {
        "count": Constant(1),
        "reason": Constant("expired"),
        "queue": queues,
        "time": numbers * 1000,
        "exchange": Constant("orders"),
        "routing_keys": Coded(numbers % 10, [[f"order.{n}"] for n in range(10)]),
    }
    return {**event, **body, "x_death": Lists(np.arange(rows + 1), death)}


def places_of(file: DataFile, rows: Ints) -> Places:
    same = np.zeros(len(rows), np.int64)
    return Places([file.path], same, rows, same + 1, same, rows)


def measure_writing(root: Location, name: str, rows: int, bodies: pa.Array) -> DataFile:
    """Print the cost of writing a table's rows; return the last file."""
    schema = TABLES[name].schema
    columns = columns_of(name, rows, bodies)
    table = build_table(schema, columns, rows)
    storage = (root / name).storage()
    written: list[DataFile] = []

    def write() -> None:
        file_name = DataFileName(QUERY, 0, name, DRIVER, len(written))
        file = write_data_file(storage, TABLES[name], file_name, table)
        assert file is not None
        written.append(file)

    build_us = cost(rows, lambda: build_table(schema, columns, rows))
    fingerprint_us = cost(rows, lambda: fingerprint(table, coded_columns(table)))
    write_us = cost(rows, write)
    say(
        f"{name}: build {build_us:.2f}, write {write_us:.2f} "
        f"(of it fingerprint {fingerprint_us:.2f}) us a row"
    )
    return written[-1]


def measure_lookups(root: Location, file: DataFile, label: str) -> None:
    """Print the cost of looking up bodies of a file."""
    chance = np.random.default_rng(2)
    for which, asked in (
        ("every row in order", np.arange(file.rows)),
        ("1 % at random", np.sort(chance.choice(file.rows, file.rows // 100, replace=False))),
    ):
        us = cost(len(asked), functools.partial(look_up, root, places_of(file, asked)))
        say(f"bodies {label}, {which}: {us:.2f} us a row")


def measure_joining(root: Location, rows: int) -> None:
    """Compact all files of the message store, and remove the old ones."""
    place, spec = root / "messages", TABLES["messages"]
    files = small_files(spec, ActiveFiles(load_table(place)))
    started = time.process_time()
    done = compact(place, spec, files)
    say(f"joining: {(time.process_time() - started) * 1e6 / rows:.2f} us a row")
    assert done is not None
    for path in done.replaced:
        place.storage().delete(path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--body-bytes", type=int, default=200)
    given = parser.parse_args()
    chance = np.random.default_rng(1)
    bodies = pa.array([chance.bytes(given.body_bytes) for _ in range(given.rows)], pa.binary())
    with tempfile.TemporaryDirectory() as folder:
        root = Location(folder)
        for name in ("events", "dead_letters"):
            measure_writing(root, name, given.rows, bodies)
        file = measure_writing(root, "messages", given.rows, bodies)
        TableWriter(root, "messages").commit_batch(QUERY, 0, [file])
        measure_lookups(root, file, "as written")
        measure_joining(root, given.rows)
        measure_lookups(root, file, "joined, by identity")


def look_up(root: Location, places: Places) -> None:
    reader = BodyReader(root)
    assert reader.read(places).num_rows == len(places)
    reader.close()


if __name__ == "__main__":
    main()
