"""`dlx simulate --engine spark`: scenarios through Kafka, Spark and Delta end as on the core.

tests/unit/scenario/test_recorded_scenarios.py compares the core with the recordings of RabbitMQ;
these tests compare the pipeline with the core. One of them plays every recording in every run, two
do so at night, on four lanes and as RabbitMQ 3.10; the others play parts that are the same on every
machine.
"""

import json
import random
import subprocess
import sys
import uuid
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest

from streaming.pipeline.flow import control
from streaming.pipeline.flow.heartbeat import Heartbeat
from streaming.scenario.document import on_single_lanes, parse_file
from streaming.scenario.play import play
from streaming.simulation.run import PipelineRun, RunPlace
from tests.recordings import recorded_for_lanes, recorded_scenarios

ROOT = Path(__file__).resolve().parents[2]
MANY, FEW = 14, 28
"""A small part is one of this many recordings: about 40, or 20."""


def part(number, parts, scenarios=None):
    """The recordings of one part of so many, spread evenly by their names."""
    scenarios = recorded_scenarios() if scenarios is None else scenarios
    return [one for one in scenarios if crc32(one.id.encode()) % parts == number]


def differing(scenarios, outcomes, compat):
    """The scenarios whose outcome differs from the core's, with both outcomes."""
    pairs = zip(scenarios, outcomes, strict=True)
    on_core = [(scenario.id, outcome, play(scenario, compat)) for scenario, outcome in pairs]
    return [each for each in on_core if each[1] != each[2]]


@pytest.fixture
def pipeline(tmp_path, embedded_kafka, monkeypatch):
    """A function that starts a separate run with its own topics, checkpoint and tables.

    Its job has hundreds of vhosts and no client, so it hardly sends heartbeats.
    """
    monkeypatch.setattr(control, "Heartbeat", partial(Heartbeat, interval_s=3600.0))

    def make(scenarios, compat, lanes=1):
        name = f"simulate-{uuid.uuid4().hex[:8]}"
        place = RunPlace(tmp_path, embedded_kafka.bootstrap_servers, name)
        return PipelineRun(scenarios, compat, place, lanes)

    return make


def test_scenarios_cut_at_random_and_restarted_end_as_on_the_core(pipeline, spark):
    scenarios = part(0, FEW)
    run = pipeline(scenarios, "4.0")
    written = run.write_log(interleaved=True)
    chance = random.Random(written)

    few = chance.randrange(written // 16, written // 4)
    finished = run.run_job(spark, max_batch_rows=few, batches=2)
    run.run_job(spark, max_batch_rows=chance.randrange(written // 2, written))

    assert not finished
    assert differing(scenarios, run.outcomes(), "4.0") == []


def test_scenarios_on_single_lanes_of_four_end_as_on_the_core_with_one(pipeline, spark):
    scenarios = part(6, FEW, recorded_for_lanes())
    run = pipeline([on_single_lanes(one) for one in scenarios], "4.0", lanes=4)
    written = run.write_log(interleaved=True)
    chance = random.Random(written)

    few = chance.randrange(written // 16, written // 4)
    finished = run.run_job(spark, max_batch_rows=few, batches=2)
    run.run_job(spark)

    assert not finished
    assert differing(scenarios, run.outcomes(), "4.0") == []


@pytest.mark.nightly  # in every run, a part of them
def test_every_recorded_scenario_on_single_lanes_of_four_ends_as_on_the_core(pipeline, spark):
    scenarios = recorded_for_lanes()
    run = pipeline([on_single_lanes(one) for one in scenarios], "4.0", lanes=4)
    run.write_log()
    run.run_job(spark)

    assert differing(scenarios, run.outcomes(), "4.0") == []


@pytest.mark.long
def test_every_recorded_scenario_ends_as_on_the_core(pipeline, spark):
    scenarios = recorded_scenarios()
    run = pipeline(scenarios, "4.0")
    written = run.write_log()

    finished = run.run_job(spark, max_batch_rows=written // 3, batches=2)
    run.run_job(spark)

    assert not finished
    assert differing(scenarios, run.outcomes(), "4.0") == []


@pytest.mark.parametrize(
    "parts", [4, pytest.param(1, marks=pytest.mark.nightly)], ids=["some", "all"]
)
def test_scenarios_that_end_otherwise_with_3_10_end_as_on_the_core(pipeline, spark, parts):
    some = part(0, parts)
    scenarios = [one for one in some if play(one, "3.10") != play(one, "4.0")]
    run = pipeline(scenarios, "3.10")
    run.write_log()
    run.run_job(spark)

    assert len(scenarios) > 100 // parts
    assert differing(scenarios, run.outcomes(), "3.10") == []


@pytest.mark.nightly  # in every run, other scenarios are cut at random and restarted once
def test_many_small_batches_and_restarts_do_not_change_outcomes(pipeline, spark):
    scenarios = part(3, MANY)
    run = pipeline(scenarios, "4.0")
    written = run.write_log(interleaved=True)
    chance = random.Random(written)

    # Three batches read at most three tenths of the log: it takes four runs or more.
    runs = 1
    while not run.run_job(
        spark, max_batch_rows=chance.randrange(written // 60, written // 10), batches=3
    ):
        runs += 1
        assert runs < 200, "the job makes no progress"

    assert runs > 3
    assert differing(scenarios, run.outcomes(), "4.0") == []


@pytest.mark.long
def test_the_command_prints_the_same_as_with_the_core():
    command = [sys.executable, "-m", "streaming.cli", "simulate", "--json", "examples"]
    printed = [
        subprocess.run([*command, *more], cwd=ROOT, check=True, capture_output=True).stdout
        for more in ((), ("--engine", "spark"))
    ]

    assert printed[0].count(b"\n") == len(list((ROOT / "examples").glob("*.json")))
    assert printed[1] == printed[0]


def test_values_of_every_type_stay_equal(pipeline, spark):
    headers = {
        "float": 1.0,
        "whole": 2**53 + 1,
        "nothing": None,
        "yes": True,
        "bytes": {"$bytes": "AP8="},
        "instant": {"$timestamp": 1},
        "decimal": {"$decimal": "1.50"},
        "table": {"list": [1, "a", {"b": {}}]},
        "text": "\u00e9 \U0001f407",
    }
    publishes: list[dict[str, object]] = [
        {"properties": {"headers": headers, "priority": 0, "expiration": "5"}, "body": "\u00e9"},
        {"properties": {"headers": {}}, "body": ""},
        {"properties": {}, "body": "plain"},
        {"exchange": "nowhere", "body": "refused"},
        {"routing_key": "nobody", "mandatory": True, "body": "back"},
    ]
    first: dict[str, object] = {"at_ms": 0, "op": "publish", "routing_key": "q"}
    steps = [first | each for each in publishes]
    steps += [
        {"at_ms": 10, "op": "get", "queue": "dead", "count": 1},
        {"at_ms": 10, "op": "get", "queue": "q", "count": 1, "as": "held"},
        {"at_ms": 20, "op": "get", "queue": "missing", "channel": "closed"},
        {"at_ms": 20, "op": "consume", "queue": "q", "as": "c", "channel": "c1", "prefetch": 1},
    ]
    queue = {
        "name": "q",
        "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    }
    document = {
        "id": "values",
        "definitions": {"queues": [queue, {"name": "dead"}]},
        "steps": steps,
        "end_ms": 30,
    }
    refused = {
        "id": "refused",
        "definitions": {"queues": [{"name": "q", "arguments": {"x-max-length": -1}}]},
        "steps": steps[:1],
        "end_ms": 30,
    }
    scenarios = _read([document, refused])
    run = pipeline(scenarios, "4.0")
    run.write_log()
    run.run_job(spark)

    outcomes = run.outcomes()

    assert differing(scenarios, outcomes, "4.0") == []
    assert outcomes[0]["unacked"] == {
        "dead": [{"ref": "g/0", "body": "\u00e9"}],
        "q": [{"ref": "held/0", "body": ""}, {"ref": "c/0", "body": "plain"}],
    }
    assert "<vhost>" in outcomes[1]["setup_error"]["text"]


def _read(documents):
    file = parse_file(json.dumps(documents), "test")
    assert file.problems == ()
    return file.scenarios
