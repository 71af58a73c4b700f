"""The findings of `dlx bench chaos`."""

import signal
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from streaming.storage.location import Location
from tests.bench.chaos.compare import COMPARED, compare_tables
from tests.bench.chaos.log import MERGED, LogShape
from tests.bench.chaos.run import ChaosJob, ChaosResult
from tests.bench.commands import chaos
from tests.bench.processes import Process
from tests.fixtures.object_store import object_store, shared_place

__all__ = ["object_store", "shared_place"]


class NoKafka:
    """A place for the Kafka that the command starts; nothing connects to it."""

    bootstrap_servers = "127.0.0.1:1"

    def __init__(self, _folder):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass


def write_tables(
    tables: Path | Location, query_id: str, batch_id: int, contents: list[int]
) -> None:
    place = tables if isinstance(tables, Location) else Location(str(tables))
    for name in COMPARED:
        copies = contents if name == "queue_contents" else [1, 2]
        columns = {
            "query_id": [query_id] * len(copies),
            "batch_id": [batch_id] * len(copies),
            "copy_id": copies,
        }
        options = dict(place.options)
        write_deltalake((place / name).url, pa.table(columns), storage_options=options)


@pytest.mark.parametrize(
    ("kills", "differences", "code", "said"),
    [
        (3, [], 0, []),
        (2, [], 1, ["after 2 of 3 kills"]),
        (3, ["events: 1 rows against 2"], 1, ["differs: events", "NOT identical"]),
    ],
)
def test_missing_kills_and_differences_are_findings(
    monkeypatch, capsys, kills, differences, code, said
):
    result = ChaosResult(100, kills, 3, {"events": 1}, differences)
    monkeypatch.setattr("tests.bench.chaos.run.run_chaos", lambda *_, **__: result)
    monkeypatch.setattr("streaming.embedded.kafka.broker.EmbeddedKafka", NoKafka)

    assert chaos(kills=3, messages=100) == code

    printed = capsys.readouterr().out
    assert all(text in printed for text in said)


def test_tables_of_other_queries_and_batches_are_equal(tmp_path):
    write_tables(tmp_path / "peace", "one", 5, [7, 8])
    write_tables(tmp_path / "chaos", "other", 9, [8, 7])

    assert compare_tables(tmp_path / "peace", tmp_path / "chaos") == []


def test_queue_contents_are_compared(tmp_path):
    write_tables(tmp_path / "peace", "one", 5, [7, 8])
    write_tables(tmp_path / "chaos", "other", 9, [7])

    [difference] = compare_tables(tmp_path / "peace", tmp_path / "chaos")

    assert difference.startswith("queue_contents: 2 rows against 1; only the first has")


def test_tables_in_an_object_store_are_compared_with_those_in_a_folder(tmp_path, shared_place):
    write_tables(tmp_path, "one", 5, [7, 8])
    write_tables(shared_place, "other", 9, [7, 9])

    [difference] = compare_tables(tmp_path, shared_place)

    assert difference.startswith("queue_contents: 2 rows against 2; only the first has")


def test_sigterm_ends_what_the_run_has_started(monkeypatch):
    ended = []
    monkeypatch.setattr(NoKafka, "__exit__", lambda *_error: ended.append("kafka"))
    monkeypatch.setattr("streaming.embedded.kafka.broker.EmbeddedKafka", NoKafka)
    monkeypatch.setattr(
        "tests.bench.chaos.run.run_chaos", lambda *_, **__: signal.raise_signal(signal.SIGTERM)
    )
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(SystemExit) as exit_:
        chaos(kills=3, messages=100)

    assert exit_.value.code == 128 + signal.SIGTERM
    assert ended == ["kafka"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_job_ends_with_its_block(tmp_path):
    job = ChaosJob(tmp_path, "127.0.0.1:1", "one", 100)
    job.process = Process(tmp_path, "waiting", "http.server", "0", "--bind", "127.0.0.1")
    pids = []

    def interrupted():
        with job.running():
            pids.append(job.process.pid)
            raise SystemExit

    with pytest.raises(SystemExit):
        interrupted()
    assert [psutil.pid_exists(pid) for pid in pids] == [False]


def write_events(tables: Path, kinds: list[str]) -> None:
    """A folder whose events are numbered from 1 on; each copy is named by its event."""
    rows = [
        {"kind": kind, "vhost": "/", "lane": 0, "seq": seq, "copy_id": seq}
        for seq, kind in enumerate(kinds, 1)
    ]
    for name in COMPARED:
        found = [row for row in rows if name == "events" or row["kind"] == "enqueued"]
        write_deltalake(str(tables / name), pa.Table.from_pylist(found))


@pytest.mark.parametrize(
    ("kinds", "is_equal"),
    [
        (["enqueued", "channel", "channel", "enqueued", "channel"], True),
        (["channel", "enqueued", "enqueued"], True),
        (["enqueued", "channel", "acked", "enqueued"], False),
        (["enqueued", "channel"], False),
    ],
)
def test_a_rebuilt_job_may_have_more_events_of_channels_and_no_others(tmp_path, kinds, is_equal):
    write_events(tmp_path / "calm", ["enqueued", "channel", "enqueued"])
    write_events(tmp_path / "rebuilt", kinds)

    found = compare_tables(tmp_path / "calm", tmp_path / "rebuilt", rebuilt=True)

    assert (found == []) == is_equal


def write_merged(tables: Path, rows: list[tuple[str, str, int]]) -> None:
    """A folder whose tables have rows of the vhost `merged`: kind, queue and offset of each."""
    for name in COMPARED:
        found = [
            {
                "kind": kind,
                "vhost": MERGED,
                "lane": 0,
                "seq": seq,
                "at": 1_000 * seq,
                "queue": queue,
                "message_id": {"offset": offset},
            }
            for seq, (kind, queue, offset) in enumerate(rows, 1)
        ]
        write_deltalake(str(tables / name), pa.Table.from_pylist(found))


@pytest.mark.parametrize(
    ("rows", "differing"),
    [
        ([("died", "limited", 1), ("enqueued", "kept", 2), ("enqueued", "kept", 1)], set()),
        ([("enqueued", "kept", 1), ("died", "limited", 2), ("enqueued", "kept", 2)], set()),
        ([("enqueued", "kept", 1), ("enqueued", "kept", 1), ("died", "limited", 1)], {"kept"}),
        ([("enqueued", "kept", 1), ("enqueued", "kept", 2)], {"limited"}),
        (
            [("enqueued", "kept", 1), ("enqueued", "kept", 2), ("enqueued", "limited", 1)],
            {"limited"},
        ),
    ],
)
def test_what_several_partitions_feed_is_compared_as_a_set(tmp_path, rows, differing):
    write_merged(
        tmp_path / "calm",
        [("enqueued", "kept", 1), ("enqueued", "kept", 2), ("died", "limited", 1)],
    )
    write_merged(tmp_path / "killed", rows)

    found = compare_tables(tmp_path / "calm", tmp_path / "killed")

    tables = {difference.partition(":")[0] for difference in found}
    assert tables - {"messages"} == (set(COMPARED) - {"messages"} if differing else set())
    assert all(f"'queue': '{queue}'" in one for queue in differing for one in found)


def test_each_partition_of_the_log_feeds_a_vhost_of_its_own():
    assert LogShape(partitions=3).vhosts == ("/", "partition-1", "partition-2")
    assert LogShape(lanes=1).has_consumers is False
    assert LogShape(lanes=2).has_consumers is True
    assert LogShape(lanes=2, holds=False).has_consumers is False
