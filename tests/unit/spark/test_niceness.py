"""How far Spark yields to other programs."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import attrs
import pytest

from streaming.config import JobConfig
from streaming.config.job import JobSettings
from streaming.config.vhosts import VhostSettings
from streaming.spark.jvm import make_nice
from streaming.spark.session import session_config

PROGRAM = """
import os, sys, threading
idle = threading.Event()
threading.Thread(target=idle.wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
found = []
def look():
    found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
later = threading.Thread(target=look)
later.start()
later.join()
known = {each.native_id for each in threading.enumerate()}
print([os.getpriority(os.PRIO_PROCESS, each) for each in known] + found, flush=True)
"""


@pytest.mark.parametrize("nice", [0, 7])
def test_every_thread_of_a_process_yields_and_what_it_starts_later(nice):
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdin is not None
        program.stdout.readline()
        make_nice(SimpleNamespace(proc=program), nice)
        program.stdin.write("go on\n")
        program.stdin.flush()
        said = program.stdout.readline()
    assert said.strip() == str([nice or before] * 3)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


@pytest.mark.parametrize(
    ("own_session", "nice", "of_session"), [(True, 12, 7), (True, 5, 0), (False, 12, 0)]
)
def test_a_session_of_its_own_yields_too_where_the_kernel_groups_threads_by_session(
    own_session, nice, of_session
):
    with subprocess.Popen(
        ["/bin/cat"], stdin=subprocess.PIPE, start_new_session=own_session
    ) as program:
        group = Path(f"/proc/{program.pid}/autogroup")
        make_nice(SimpleNamespace(proc=program), nice)
        if group.exists():  # the kernel may be built without it
            assert group.read_text().endswith(f" nice {of_session}\n")
        assert os.getpriority(os.PRIO_PROCESS, program.pid) == nice


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
