"""The load bench in small, and that its judge sees what is wrong."""

import json
from pathlib import Path

import pytest

from streaming.bench.load import Load, run_load
from streaming.bench.verify import _disorder, judge


@pytest.mark.long
def test_everything_is_accounted_for_while_everything_is_killed(tmp_path: Path) -> None:
    verdict, changes = run_load(tmp_path, Load(seconds=60, rate=200, kills=4))
    assert verdict.problems == []
    assert verdict.confirmed > 0
    assert verdict.died > 0
    assert verdict.redelivered > 0
    figures = {change.name: change for change in changes}
    assert figures["batch_ms"].early > 0
    assert {"driver_mb", "workers_mb", "spark_mb", "kafka_mb", "events_files"} <= figures.keys()

    # The same evidence with a lie in it: a delivery that nobody has noted, one that never was.
    diaries = sorted(tmp_path.glob("consumer-*.diary"))
    lines = [line for diary in diaries for line in diary.read_text().splitlines()]
    facts = [json.loads(line) for line in lines]
    victim = next((fact["p"], fact["n"]) for fact in facts if "s" in fact)
    kept = [fact for fact in facts if (fact.get("p"), fact.get("n")) != victim]
    lying = tmp_path / "lying"
    lying.mkdir()
    made_up = {"s": "x", "p": "nobody", "n": 1, "again": False, "took_s": 0.0}
    (lying / "consumer.diary").write_text("".join(json.dumps(f) + "\n" for f in [*kept, made_up]))
    problems = judge(tmp_path / "tables", [lying / "consumer.diary"]).problems
    assert any("never delivered" in problem for problem in problems)
    assert any("delivered, and not in messages" in problem for problem in problems)


def test_a_later_message_before_an_earlier_one_is_disorder() -> None:
    def delivered(number: int, *, again: bool = False) -> dict[str, object]:
        return {"s": "one", "p": "a", "n": number, "again": again}

    assert _disorder([delivered(1), delivered(2), delivered(1, again=True)]) == []
    assert _disorder([delivered(2), delivered(1)]) == ["a:1 after 2 to one"]
