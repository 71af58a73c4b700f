"""Programs as children, and interrupts while they are started."""

import os
import signal
import subprocess
import threading

import psutil
import pytest

from streaming.embedded.child import Child, interrupts_deferred, output_of, start_child
from tests.fixtures.waiting import join, wait_until

SLEEP = ["sleep", "600"]


def test_an_interrupt_during_a_start_comes_when_the_child_is_known(tmp_path):
    children: list[Child] = []

    def start() -> None:
        with interrupts_deferred():
            signal.raise_signal(signal.SIGINT)
            children.append(start_child(SLEEP, tmp_path / "out", cwd=tmp_path))

    with pytest.raises(KeyboardInterrupt):
        start()

    assert psutil.Process(children[0].pid).is_running()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    children[0].request_kill()
    children[0].wait()


def test_another_thread_starts_programs_likewise(tmp_path):
    statuses: list[int] = []

    def run() -> None:
        with interrupts_deferred():
            child = start_child(["false"], tmp_path / "out", cwd=tmp_path)
        child.wait()
        statuses.append(child.status() or 0)

    thread = threading.Thread(target=run)
    thread.start()
    join(thread)

    assert statuses == [1]


def test_a_program_says_its_output_and_status():
    assert output_of(["sh", "-c", "echo out; echo err >&2; exit 3"], 60) == (3, "out\nerr\n")


def sleepers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.name() == "sleep"]


def test_an_interrupted_program_does_not_stay():
    def interrupt() -> None:
        wait_until(sleepers)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        output_of(SLEEP, 600)
    join(thread)

    assert sleepers() == []


def test_a_program_that_takes_too_long_is_killed():
    with pytest.raises(subprocess.TimeoutExpired):
        output_of(SLEEP, 0.1)

    assert sleepers() == []
