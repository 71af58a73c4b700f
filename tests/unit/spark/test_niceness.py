"""How far Spark yields to other programs, and what it leaves to them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from streaming.config import JobConfig
from streaming.config.flow import FlowSettings, Relative
from streaming.config.job import JobSettings
from streaming.config.vhosts import VhostSettings
from streaming.spark.jvm import make_nice, spare_cores
from streaming.spark.session import session_config
from tests.fixtures.child import Child

PROGRAM = """
import os, sys, threading
idle = threading.Event()
threading.Thread(target=idle.wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
found = []
def look():
    found.append(of(threading.get_native_id()))
later = threading.Thread(target=look)
later.start()
later.join()
known = {each.native_id for each in threading.enumerate()}
print([of(each) for each in known] + found, flush=True)
"""
NICENESS = """
def of(thread):
    return os.getpriority(os.PRIO_PROCESS, thread)
"""
CORES = """
def of(thread):
    return sorted(os.sched_getaffinity(thread))
"""


def what_threads_have(what: str, change: Callable[[Any], None]) -> str:
    """What the threads of a process have after a change, those that start later included."""
    with Child(
        [sys.executable, "-c", "import os" + what + PROGRAM], stdin=subprocess.PIPE
    ) as program:
        assert program.stdin is not None
        program.line()
        change(SimpleNamespace(proc=program))
        program.stdin.write("go on\n")
        program.stdin.flush()
        return program.line()


@pytest.mark.parametrize("nice", [0, 7])
def test_every_thread_of_a_process_yields_and_what_it_starts_later(nice):
    before = os.getpriority(os.PRIO_PROCESS, 0)
    said = what_threads_have(NICENESS, lambda program: make_nice(program, nice))
    assert said == str([max(nice, before)] * 3)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_a_process_that_yields_further_stays_so():
    """Its user has started it under `nice`, and may not take that back."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    further = max(12, before)

    def change(program: Any) -> None:
        os.setpriority(os.PRIO_PROCESS, program.proc.pid, further)
        make_nice(program, 7)

    said = what_threads_have(NICENESS, change)
    others = max(7, before)
    assert sorted(json.loads(said)) == sorted([further, further, others])


@pytest.mark.parametrize("count", [0, 1, 1_000])
def test_every_thread_of_a_process_leaves_cores_and_what_it_starts_later(count):
    cores = sorted(os.sched_getaffinity(0))
    said = what_threads_have(CORES, lambda program: spare_cores(program, count))
    assert said == str([cores[count:] or cores[-1:]] * 3)
    assert sorted(os.sched_getaffinity(0)) == cores


@pytest.mark.parametrize(
    ("own_session", "nice", "of_session"), [(True, 12, 7), (True, 5, 0), (False, 12, None)]
)
def test_a_session_of_its_own_yields_too_where_the_kernel_groups_threads_by_session(
    own_session, nice, of_session
):
    of_this_process = os.getpriority(os.PRIO_PROCESS, 0)
    with subprocess.Popen(
        ["/bin/cat"], stdin=subprocess.PIPE, start_new_session=own_session
    ) as program:
        group = Path(f"/proc/{program.pid}/autogroup")
        has_groups = group.exists()  # the kernel may be built without them
        before = group.read_text() if has_groups else ""  # of the first session: nothing
        make_nice(SimpleNamespace(proc=program), nice)
        if has_groups and of_session is None:
            assert group.read_text() == before
        elif has_groups:
            assert group.read_text().endswith(f" nice {of_session}\n")
        assert os.getpriority(os.PRIO_PROCESS, program.pid) == max(nice, of_this_process)


@pytest.mark.parametrize(
    ("given", "sequenced", "nice"),
    [(None, False, 0), (None, True, 10), (0, True, 0), (3, False, 3)],
)
def test_spark_yields_to_the_front_of_a_sequenced_vhost_if_not_told(given, sequenced, nice):
    config = attrs.evolve(
        JobConfig(),
        job=JobSettings(nice=given),
        vhosts={"orders": VhostSettings(sequenced=sequenced)},
    )
    assert session_config(config, {}).nice == nice


@pytest.mark.parametrize(
    ("given", "sequenced", "master", "spared"),
    [
        (None, False, "local[*]", 0),
        (None, True, "local[*]", 1),
        (None, True, "spark://host:7077", 0),
        (0, True, "local[2]", 0),
        (3, False, "spark://host:7077", 3),
    ],
)
def test_spark_leaves_a_core_to_a_front_beside_it_if_not_told(given, sequenced, master, spared):
    config = attrs.evolve(
        JobConfig(),
        job=JobSettings(
            spare_cores=given,
            master=master,
            shuffle_partitions=2,
            checkpoint_location="/mnt/dlx/checkpoint",
            tables_location="/mnt/dlx/tables",
            shared_mount="/mnt/dlx",
        ),
        flow=FlowSettings(vm_memory_high_watermark=Relative(0)),
        vhosts={"orders": VhostSettings(sequenced=sequenced)},
    )
    assert session_config(config, {}).spare_cores == spared
