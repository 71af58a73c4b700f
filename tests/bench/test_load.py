"""A small load, and that its verification finds errors."""

import json
from pathlib import Path

import pytest

from streaming.storage.location import Location
from tests.bench.load.run import Load, run_load
from tests.bench.load.verify import out_of_order, verify


@pytest.mark.nightly  # in every run, other tests kill jobs, clients and Kafka
def test_every_message_is_accounted_for_while_processes_are_killed(tmp_path: Path) -> None:
    report, changes = run_load(tmp_path, Load(seconds=30, rate=200, kills=4))
    assert report.problems == []
    assert report.confirmed > 0
    assert report.died > 0
    assert report.redelivered > 0
    figures = {change.name: change for change in changes}
    assert figures["batch_ms"].early > 0
    assert {"driver_mb", "workers_mb", "spark_mb", "kafka_mb", "events_files"} <= figures.keys()

    # The same logs without one delivery and with an invented one.
    logs = sorted(tmp_path.glob("consumer-*.events"))
    lines = [line for log in logs for line in log.read_text().splitlines()]
    events = [json.loads(line) for line in lines]
    victim = next((event["p"], event["n"]) for event in events if "s" in event)
    kept = [event for event in events if (event.get("p"), event.get("n")) != victim]
    lying = tmp_path / "lying"
    lying.mkdir()
    made_up = {"s": "x", "p": "nobody", "n": 1, "again": False, "took_s": 0.0}
    (lying / "consumer.events").write_text("".join(json.dumps(f) + "\n" for f in [*kept, made_up]))
    problems = verify(Location(str(tmp_path / "tables")), [lying / "consumer.events"]).problems
    assert any("never delivered" in problem for problem in problems)
    assert any("delivered, but not in messages" in problem for problem in problems)


def test_a_later_message_before_an_earlier_one_is_out_of_order() -> None:
    def delivered(number: int, *, again: bool = False) -> dict[str, object]:
        return {"s": "one", "p": "a", "n": number, "again": again}

    assert out_of_order([delivered(1), delivered(2), delivered(1, again=True)]) == []
    assert out_of_order([delivered(5), delivered(1)]) == ["a:1 after 5 to one"]
    assert out_of_order([delivered(2), delivered(1)]) == []  # of another key
