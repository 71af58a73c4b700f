"""When Spark yields less, and that all it has started does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.spark.jvm import make_nice, spare_cores
from streaming.spark.yielding import Yielding
from tests.fixtures.child import Child
from tests.fixtures.waiting import wait_until

NICE, SPARED = 12, 1
LATE_S, NEVER_S = 0.5, 1e9
CHILD = "import os, subprocess, sys; print(subprocess.Popen(['/bin/cat']).pid, flush=True); input()"


@pytest.fixture
def spark() -> Iterator[Any]:
    """A process with a session of its own, which has started another."""
    with Child(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, start_new_session=True
    ) as program:
        yield SimpleNamespace(proc=program, child=int(program.line()))
        program.kill()


def cores_of(spark: Any) -> list[list[int]]:
    return [sorted(os.sched_getaffinity(each)) for each in (spark.proc.pid, spark.child)]


def session_niceness(spark: Any) -> str | None:
    group = Path(f"/proc/{spark.proc.pid}/autogroup")
    return group.read_text().rpartition(" ")[2].strip() if group.exists() else None


@pytest.mark.parametrize("late", [True, False])
def test_spark_yields_less_while_a_batch_takes_long_and_again_after_a_short_one(spark, late):
    every = sorted(os.sched_getaffinity(0))
    fewer = every[SPARED:] or every[-1:]
    has_groups = session_niceness(spark) is not None
    make_nice(spark, NICE)
    spare_cores(spark, SPARED)
    hurrying = Yielding(spark, NICE, SPARED, LATE_S if late else NEVER_S)
    try:
        hurrying.batch_began()
        if late:
            wait_until(lambda: hurrying.hurries)
            assert cores_of(spark) == [every, every]
            assert session_niceness(spark) == ("0" if has_groups else None)
        hurrying.batch_done()
        assert hurrying.hurries == late

        hurrying.batch_began()
        hurrying.batch_done()
        assert not hurrying.hurries
        assert cores_of(spark)[0] == fewer
        assert session_niceness(spark) == (str(NICE - 5) if has_groups else None)
    finally:
        hurrying.stop()


def test_what_stops_while_it_hurries_yields_again(spark):
    hurrying = Yielding(spark, NICE, SPARED, LATE_S)
    hurrying.batch_began()
    wait_until(lambda: hurrying.hurries)
    hurrying.stop()
    every = sorted(os.sched_getaffinity(0))
    assert cores_of(spark) == [every[SPARED:] or every[-1:]] * 2


def test_what_neither_yields_nor_leaves_cores_stays_as_it_is(spark):
    before = cores_of(spark), session_niceness(spark)
    hurrying = Yielding(spark, 0, 0, LATE_S)
    hurrying.batch_began()
    wait_until(lambda: hurrying.hurries)
    assert (cores_of(spark), session_niceness(spark)) == before
    hurrying.stop()
