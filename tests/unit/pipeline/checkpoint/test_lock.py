"""Only one job at a time can use a checkpoint."""

import subprocess
import sys

import pytest

from streaming.pipeline.checkpoint.checkpoint import CheckpointLock
from streaming.pipeline.checkpoint.errors import CheckpointError
from tests.fixtures.child import Child

HOLD = """
import sys, pathlib
from streaming.pipeline.checkpoint.checkpoint import CheckpointLock
lock = CheckpointLock(pathlib.Path(sys.argv[1]))
lock.acquire()
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_second_job_is_refused_until_the_first_releases_the_lock(tmp_path):
    first, second = CheckpointLock(tmp_path), CheckpointLock(tmp_path)
    first.acquire()

    with pytest.raises(CheckpointError, match="another job uses"):
        second.acquire()
    first.release()
    second.acquire()

    second.release()
    second.release()  # harmless


def test_a_killed_job_leaves_no_lock(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with Child(command, stdin=subprocess.PIPE) as holder:
        assert holder.line() == "locked"
        with pytest.raises(CheckpointError):
            CheckpointLock(tmp_path).acquire()
        holder.kill()
        holder.wait()

    lock = CheckpointLock(tmp_path)
    lock.acquire()
    lock.release()
