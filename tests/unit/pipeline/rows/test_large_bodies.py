"""Bodies that together exceed memory or the size of one column."""

import os
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.message import Message
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.ledger.read.body_reader import BodyReader
from streaming.ledger.write.data_file import DataFile, DataFileName
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.intake.stage import Intake
from streaming.pipeline.rows.bounds import chunks
from streaming.pipeline.rows.dead_letters import dead_letter_tables
from streaming.pipeline.rows.stored import STORED
from streaming.pipeline.shard_block import unpack
from streaming.pipeline.task import (
    BatchContext,
    OutboundTask,
    TaskSettings,
    TopicTask,
)
from streaming.protocol.command_json import parse_command
from streaming.storage.location import Location

MEBIBYTE = 1 << 20
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW_MS = 1_700_000_000_000


def records(
    first: int,
    bodies: list[bytes],
    key: bytes | None = None,
    more: tuple[tuple[str, bytes], ...] = (),
) -> pa.RecordBatch:
    rows = len(bodies)
    headers = [[("dlx-routing-key", b"work"), *more]] * rows
    return pa.record_batch(
        {
            "topic": ["publishes"] * rows,
            "partition": pa.array([0] * rows, pa.int32()),
            "offset": pa.array(range(first, first + rows), pa.int64()),
            "at_ms": pa.array([NOW_MS] * rows, pa.int64()),
            "key": pa.array([key] * rows, pa.binary()),
            "value": pa.array(bodies, pa.binary()),
            "headers": pa.array(headers, HEADERS),
        }
    )


def settings_of(place: Location, max_body_bytes: int = MEBIBYTE) -> TaskSettings:
    return TaskSettings(
        tables=place,
        topics={"publishes": TopicTask(1, "guest")},
        vhosts={"/": (1,)},
        shards={1: ShardConfig()},
        outbound=OutboundTask({}),
        max_body_bytes=max_body_bytes,
        max_header_bytes=16_384,
    )


@pytest.mark.parametrize(
    ("sizes", "runs"),
    [
        ([], []),
        ([5, 5, 5], [(0, 2), (2, 3)]),
        ([0, 0, 10, 0], [(0, 4)]),
        ([99, 1, 99], [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_chunks_hold_as_many_messages_as_fit(sizes, runs):
    assert list(chunks((sizes, 10))) == runs


def test_chunks_are_within_every_bound():
    sizes, headers = [1, 1, 1, 1, 9], [0, 3, 3, 0, 0]

    assert list(chunks((sizes, 4), (headers, 5))) == [(0, 2), (2, 4), (4, 5)]


def dead_letters(place: Location, blob: bytes, max_header_bytes: int) -> list[tuple[int, pa.Table]]:
    """The rows of `dead_letters` when all of a blob's messages die at once."""
    taken = unpack([blob])
    shard = Shard(ShardConfig(), MemoryStore())
    queue = {"name": "work", "arguments": {"x-max-length": 0}}
    shard.command(NOW_MS, parse_command({"op": "declare_queue", "queue": queue}), Actor(None, "a"))
    columns = ("offset", "body_file", "body_row", "size", "publication")
    for offset, file, row, size, code in zip(
        *(taken.columns[name].tolist() for name in columns), strict=True
    ):
        message = Message(1, 0, offset, file, row, size)
        shard.publish(NOW_MS, message, taken.publications[code], 0, Actor(None, "a"))
    with closing(BodyReader(place, STORED)) as reader:
        events = shard.finish().events
        return list(dead_letter_tables(events, "query", 0, "/", 0, reader, max_header_bytes))


def test_large_bodies_go_into_several_files_and_their_deaths_too(tmp_path):
    place = Location(str(tmp_path))
    Ledger(place).close()
    body = os.urandom(MEBIBYTE)
    count, piece = 150, 30
    intake = Intake(settings_of(place), BatchContext("query", 0, NOW_MS))
    for first in range(0, count, piece):
        intake.add(records(first, [body] * piece))
    [(_key, blob)] = intake.blobs()
    files = intake.close()

    tables = dead_letters(place, blob, 16_384)

    assert [file.rows for file in files] == [64, 64, 22]
    for file in files:
        groups = pq.ParquetFile(tmp_path / "messages" / file.path).metadata
        largest = max(groups.row_group(n).total_byte_size for n in range(groups.num_row_groups))
        assert largest < 10 * MEBIBYTE
    assert [table.num_rows for _first, table in tables] == [64, 64, 22]
    seqs = [seq for _first, table in tables for seq in table["seq"].to_pylist()]
    assert (len(set(seqs)), [first for first, _table in tables]) == (
        count,
        [table["seq"][0].as_py() for _first, table in tables],
    )
    assert all(one == body for _first, table in tables for one in table["body"].to_pylist())


@pytest.mark.parametrize(
    "headers",
    [
        (("dlx-headers", b'{"k": "' + b"v" * 1_000 + b'"}'),),
        (("traceparent", b"v" * 500), ("traceparent", b"w" * 500)),
    ],
    ids=["ours", "foreign"],
)
def test_large_headers_of_short_bodies_go_into_several_files_and_their_deaths_too(
    tmp_path, monkeypatch, headers
):
    monkeypatch.setattr("streaming.pipeline.rows.bounds.MAX_FILE_BYTES", 70_000)
    monkeypatch.setattr("streaming.pipeline.rows.dead_letters.MAX_TEXT_BYTES", 64_000)
    monkeypatch.setattr("streaming.pipeline.rows.dead_letters.MAX_HEADER_BYTES", 100_000)
    place = Location(str(tmp_path))
    Ledger(place).close()
    intake = Intake(settings_of(place), BatchContext("query", 0, NOW_MS))
    for first in range(0, 150, 30):
        intake.add(records(first, [b"b"] * 30, more=headers))
    [(_key, blob)] = intake.blobs()

    files = intake.close()
    tables = dead_letters(place, blob, 2_000)

    assert [file.rows for file in files] == [64, 64, 22]
    assert max(table.num_rows for _first, table in tables) <= 60
    found = [
        (headers or "", [one["value"] for one in foreign or ()])
        for _first, table in tables
        for headers, foreign in zip(
            table["headers"].to_pylist(), table["kafka_headers"].to_pylist(), strict=True
        )
    ]
    assert len(found) == 150
    assert all(len(ours) + sum(map(len, foreign)) >= 1_000 for ours, foreign in found)


@pytest.mark.parametrize("headers", [(), (("traceparent", b"00-1"),)], ids=["none", "foreign"])
def test_deaths_with_small_headers_stay_in_one_file_whatever_the_limit_allows(
    tmp_path, monkeypatch, headers
):
    place = Location(str(tmp_path))
    Ledger(place).close()
    intake = Intake(settings_of(place), BatchContext("query", 0, NOW_MS))
    intake.add(records(0, [b"b"] * 150, more=headers))
    [(_key, blob)] = intake.blobs()
    intake.close()
    [(_first, whole)] = dead_letters(place, blob, 2_000)
    monkeypatch.setattr("streaming.pipeline.rows.dead_letters.MAX_HEADER_BYTES", 100_000)

    [(_first, found)] = dead_letters(place, blob, 2_000)

    assert found.num_rows == 150
    assert found.to_pylist() == whole.to_pylist()


def test_many_records_in_quarantine_go_into_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr("streaming.pipeline.rows.bounds.MAX_FILE_BYTES", 64_000)
    place = Location(str(tmp_path))
    Ledger(place).close()
    body = os.urandom(1_000)

    def run() -> list[DataFile]:
        intake = Intake(settings_of(place, 500), BatchContext("query", 0, NOW_MS))
        for first in range(0, 150, 30):
            intake.add(records(first, [body] * 30))
        return intake.close()

    files = run()

    assert [file.rows for file in files] == [63, 63, 24]
    assert [DataFileName.parse(file.path) for file in files] == [
        DataFileName("query", 0, "quarantine", "t1-p0", first) for first in (0, 63, 126)
    ]
    tables = [pq.read_table(tmp_path / "quarantine" / file.path) for file in files]
    assert [n for table in tables for n in table["offset"].to_pylist()] == list(range(150))
    assert run() == files  # a repeated batch finds them


def test_long_keys_of_short_bodies_go_into_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr("streaming.pipeline.rows.bounds.MAX_FILE_BYTES", 70_000)
    place = Location(str(tmp_path))
    Ledger(place).close()
    intake = Intake(settings_of(place), BatchContext("query", 0, NOW_MS))

    for first in range(0, 150, 30):
        intake.add(records(first, [b""] * 30, os.urandom(1_000)))

    assert [file.rows for file in intake.close()] == [65, 65, 20]
