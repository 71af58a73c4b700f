"""The supervisor with a plain command in Kafka's place."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from streaming.embedded import supervisor
from tests.fixtures.child import runs
from tests.fixtures.waiting import wait_until

PATIENCE_S = 20
SLEEP = ["sleep", "600"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]


def start(
    output: Path, command: list[str], grace_s: float = 10, parent: int | None = None
) -> tuple["subprocess.Popen[bytes]", int]:
    """Returns the supervisor and the process id of its command."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", supervisor.__file__),
            *(str(parent or os.getpid()), str(grace_s), str(output), *command),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdout
    with process.stdout as status:
        return process, int(status.readline() or 0)


def end(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdin
    process.stdin.close()
    return process.wait(PATIENCE_S)


def test_closing_the_pipe_stops_the_command(tmp_path):
    process, command = start(tmp_path / "out", SLEEP)
    ran = runs(command)

    assert (ran, end(process), runs(command)) == (True, 128 + signal.SIGTERM, False)


def test_a_command_that_does_not_stop_is_killed_after_the_grace(tmp_path):
    process, command = start(tmp_path / "out", STUBBORN, grace_s=0.2)
    wait_until(lambda: (tmp_path / "out").read_text() == "ready\n")

    assert (end(process), runs(command)) == (128 + signal.SIGKILL, False)


def test_the_byte_k_kills_at_once(tmp_path):
    process, command = start(tmp_path / "out", STUBBORN, grace_s=600)
    wait_until(lambda: (tmp_path / "out").read_text() == "ready\n")

    assert process.stdin
    process.stdin.write(b"k")
    status = process.wait(PATIENCE_S)
    process.stdin.close()

    assert (status, runs(command)) == (128 + signal.SIGKILL, False)


def test_the_commands_exit_status_is_passed_on_at_once(tmp_path):
    process, _ = start(tmp_path / "out", ["sh", "-c", "echo out; echo err >&2; exit 3"])

    assert process.wait(PATIENCE_S) == 3
    assert end(process) == 3
    assert (tmp_path / "out").read_text() == "out\nerr\n"


def test_a_terminated_supervisor_stops_the_command(tmp_path):
    process, command = start(tmp_path / "out", SLEEP)

    process.terminate()

    assert (process.wait(PATIENCE_S), runs(command)) == (128 + signal.SIGTERM, False)
    end(process)


def test_ctrl_c_does_not_reach_the_command(tmp_path):
    process, command = start(tmp_path / "out", SLEEP)

    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    still_runs = runs(command)

    assert still_runs
    assert end(process) == 128 + signal.SIGTERM


def test_an_unexpected_parent_stops_the_command(tmp_path):
    process, command = start(tmp_path / "out", SLEEP, parent=2**22 + 1)

    assert (process.wait(PATIENCE_S), runs(command)) == (128 + signal.SIGTERM, False)
    end(process)


def test_the_command_does_not_outlive_a_killed_supervisor(tmp_path):
    process, command = start(tmp_path / "out", SLEEP)

    process.kill()
    process.wait(PATIENCE_S)

    wait_until(lambda: not runs(command))
    end(process)


def test_a_command_that_cannot_start_is_reported_by_status_and_output(tmp_path):
    process, command = start(tmp_path / "out", ["/no/such/program"])

    assert (process.wait(PATIENCE_S), command) == (127, 0)
    assert (tmp_path / "out").read_text() == (
        "[Errno 2] No such file or directory: '/no/such/program'"
    )
    end(process)
