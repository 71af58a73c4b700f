"""A program as a child process that ends with this process, however this process ends.

    start_child(command, output) -> Child ... stop(), kill()

`supervisor.py` runs between the two. Ctrl-C in a terminal does not reach the program.

An interrupt (Ctrl-C, SIGTERM) waits while a program is started: none is left that nobody ends.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

SUPERVISOR = Path(__file__).parent / "supervisor.py"
STOP_GRACE_S = 20.0


@dataclass(frozen=True, slots=True)
class Child:
    """A started program.

    Attributes:
        supervisor: ends with the program's exit status.
        control: the supervisor's input.
        pid: the program's process id; 0 if it could not be started.
    """

    supervisor: "subprocess.Popen[bytes]"
    control: IO[bytes]
    pid: int

    def status(self) -> int | None:
        """The exit status; None while the program runs."""
        return self.supervisor.poll()

    def request_stop(self) -> None:
        """Ask the program to end; the supervisor kills it after its grace period."""
        self.control.close()

    def request_kill(self) -> None:
        """Kill the program like a crash (SIGKILL)."""
        with suppress(BrokenPipeError):  # it has just ended
            self.control.write(b"k")

    def wait(self) -> None:
        """Wait for the end of the program, and release everything."""
        self.supervisor.wait()
        self.control.close()


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Handle SIGINT and SIGTERM after the block only; other threads than the main one get none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _frame: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for stopping, handler in before.items():
            signal.signal(stopping, signal.SIG_DFL if handler is None else handler)
        for number in came:
            signal.raise_signal(number)


def output_of(command: Sequence[str | Path], timeout_s: float) -> tuple[int, str]:
    """Run a program to its end; its exit status, and its output and errors as one text.

    Raises:
        OSError, subprocess.TimeoutExpired: it could not be started, or was killed after the time.
    """
    program: subprocess.Popen[str] | None = None
    try:
        with interrupts_deferred():
            program = subprocess.Popen(  # noqa: S603 (our caller composed it)
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        said, _ = program.communicate(timeout=timeout_s)
    except BaseException:
        if program is not None:
            program.kill()
            program.communicate()
        raise
    return program.returncode, said


def start_child(
    command: Sequence[str],
    output: Path,
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    grace_s: float = STOP_GRACE_S,
) -> Child:
    """Start a program under a supervisor. Keep the result under `interrupts_deferred`.

    Args:
        output: file for its output; overwritten.
        environment: its environment; by default that of this process.
        pass_fds: descriptors that the supervisor inherits, such as a file lock.
        grace_s: how long the program may take to end before it is killed.
    """
    supervisor = subprocess.Popen(  # noqa: S603 (our own script, and a command of ours)
        [
            *(sys.executable, "-I", "-S", str(SUPERVISOR)),
            *(str(os.getpid()), str(grace_s), str(output)),
            *command,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        cwd=cwd,
        env=environment,
        pass_fds=pass_fds,
        start_new_session=True,  # Ctrl-C in the terminal must not reach the program
    )
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    with supervisor.stdout as status:
        pid = status.readline()
    return Child(supervisor, supervisor.stdin, int(pid or 0))
