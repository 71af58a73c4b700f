"""The findings of `dlx bench chaos`."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.bench.chaos.compare import COMPARED, compare_tables
from tests.bench.chaos.run import ChaosResult
from tests.bench.commands import chaos


class NoKafka:
    """A place for the Kafka that the command starts; nothing connects to it."""

    bootstrap_servers = "127.0.0.1:1"

    def __init__(self, _folder):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass


def write_tables(tables: Path, query_id: str, batch_id: int, contents: list[int]) -> None:
    for name in COMPARED:
        copies = contents if name == "queue_contents" else [1, 2]
        columns = {
            "query_id": [query_id] * len(copies),
            "batch_id": [batch_id] * len(copies),
            "copy_id": copies,
        }
        write_deltalake(str(tables / name), pa.table(columns))


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
    monkeypatch.setattr("tests.bench.chaos.run.run_chaos", lambda *_: result)
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
