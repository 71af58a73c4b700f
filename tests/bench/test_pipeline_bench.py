"""`dlx bench pipeline` in a size that takes minutes."""

import json
import os
import subprocess
import sys

import pytest

from streaming.embedded.errors import EmbeddedError
from tests.bench.pipeline.rabbitmq import check_rabbitmq, find_rabbitmq
from tests.bench.pipeline.traffic import ATTRIBUTES

TINY = {
    "messages": 2_000,
    "batch": 1_000,
    "rate": 50,
    "seconds": 2,
    "resident": 2_000,
    "queues": 50,
    "history": 200,
    "small-batch": 200,
    "batches": 2,
    "commits": 20,
    "consumed": 400,
    "minutes": 0.01,
}


CONSUMING = (
    "consume_1_unlimited",
    "consume_1_2000",
    "consume_10_unlimited",
    "consume_10_2000",
    *(f"consume_lanes_{count}" for count in sorted({1, len(os.sched_getaffinity(0))})),
    "settle_0",
    "settle_10",
)


VERSUS = (
    "versus_ttl_plain",
    "versus_ttl_ids",
    "versus_length_plain",
    "versus_length_ids",
    "versus_consume_1_unlimited",
    "versus_consume_1_2000",
    "versus_consume_10_unlimited",
    "versus_consume_10_2000",
)


VERSUS_AMQP = (
    "versus_amqp_1_500",
    "versus_amqp_1_2000",
    "versus_amqp_10_500",
    "versus_amqp_10_2000",
)
MORE_AMQP = (
    "versus_amqp_steady_50",
    "versus_amqp_round_trips_ours",
    "versus_amqp_round_trips_theirs",
)
SUSTAINED = "versus_amqp_sustained"


LANES = [f"lanes_{count}" for count in sorted({1, len(os.sched_getaffinity(0))})]
SHAPES = [f"shape_{attributes}" for attributes in ATTRIBUTES]
CASES = ("throughput", "shapes", "consume", "lanes", "settle")
SMALL_CASES = ("latency", "resident", "queues", "commits", "idle")


def has_rabbitmq():
    """Whether a server is installed; in CI it must be, and .ci/run installs it."""
    try:
        find_rabbitmq()
    except EmbeddedError:
        if os.environ.get("CI") == "true":
            raise
        return False
    return True


@pytest.fixture(scope="module")
def figures():
    """The lines of all cases, by their names; those of versus if there is a RabbitMQ."""
    versus = ["versus"] if has_rabbitmq() else []
    options = [f"--{name}={value}" for name, value in TINY.items()]
    options += [f"--case={case}" for case in (*CASES, *versus, *SMALL_CASES)]
    command = [sys.executable, "-m", "streaming.cli", "bench", "pipeline", "--json", *options]

    run = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)

    assert run.returncode == 0, run.stderr
    return {line["case"]: line for line in map(json.loads, run.stdout.splitlines())}


@pytest.mark.nightly
def test_each_case_prints_its_lines_in_order(figures):
    compared = (*VERSUS, SUSTAINED, *VERSUS_AMQP, *MORE_AMQP) if has_rabbitmq() else ()
    lines = ("copy", "core", *LANES, *SHAPES, *CONSUMING, *compared, *SMALL_CASES)

    assert tuple(figures) == lines


@pytest.mark.nightly
def test_throughput_is_compared_with_the_copy_the_core_and_plain_messages(figures):
    for name in LANES:
        assert figures[name]["of_copy"] > 0
        assert figures[name]["messages_per_s"] > 0
    assert figures["shape_plain"]["of_plain"] == 1
    assert all("spark_us" in figures[name] for name in ("copy", *LANES, *SHAPES))


@pytest.mark.nightly
def test_everything_is_delivered_and_settled(figures):
    for name in CONSUMING:
        assert figures[name]["messages_per_s"] > 0
        assert len([key for key in figures[name] if key.endswith("_share")]) == 11
        assert 0 < figures[name]["outbound_share"] < 1


@pytest.mark.nightly
def test_the_job_is_compared_with_a_real_rabbitmq(figures):
    if not has_rabbitmq():
        pytest.skip("no rabbitmq-server is installed")

    for line in (figures[name] for name in (*VERSUS, SUSTAINED, *VERSUS_AMQP)):
        ratio = line["ours_per_s"] / line["theirs_per_s"]
        assert line["ratio"] == pytest.approx(ratio, rel=0.02, abs=0.01)  # all three are rounded
        assert line["rabbitmq_us"] >= 0
    assert all(figures[name]["from_log_per_s"] > 0 for name in VERSUS[:4])
    assert all(figures[name]["front_us"] > 0 for name in VERSUS_AMQP)
    assert figures["versus_amqp_steady_50"]["confirm_p99_ms"] > 0
    for name in MORE_AMQP[1:]:
        for what in ("confirm", "get", "declare", "rpc"):
            assert figures[name][f"{what}_p99_ms"] >= figures[name][f"{what}_p50_ms"] > 0
    assert all("tables_behind_s" in figures[name] for name in (SUSTAINED, *VERSUS_AMQP))


def test_versus_needs_a_rabbitmq(monkeypatch):
    monkeypatch.setattr("tests.bench.pipeline.rabbitmq.PROGRAMS", ("no-such-rabbitmq-server",))

    with pytest.raises(EmbeddedError, match="--amqp"):
        check_rabbitmq(None)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "amqp://guest:secret@localhost:1/x",
        "amqp://guest:secret@localhost:1/",
        "http://localhost",
        "amqp://localhost:abc",
    ],
)
def test_an_amqp_url_that_does_not_answer_is_refused_before_anything_starts(url):
    command = [sys.executable, "-m", "streaming.cli", "bench", "pipeline", "--case", "versus"]

    run = subprocess.run([*command, "--amqp", url], capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("--amqp: ")
    assert len(run.stderr.splitlines()) == 1
    assert "secret" not in run.stderr


@pytest.mark.nightly
def test_latency_sizes_and_an_idle_job_are_measured(figures):
    assert figures["latency"]["rejects"] == TINY["rate"] * TINY["seconds"]
    assert figures["latency"]["p99_ms"] >= figures["latency"]["p50_ms"] > 0
    for name, many in (("resident", 2_000), ("queues", 50), ("commits", 200)):
        assert (figures[name]["many"], figures[name]["ratio"] > 0) == (many, True)
    assert figures["idle"]["batches"] == 0
    assert figures["idle"]["cores"] > 0


def test_an_unknown_case_is_refused():
    command = [sys.executable, "-m", "streaming.cli", "bench", "pipeline", "--case", "speed"]

    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode == 2
    assert "throughput" in run.stderr
