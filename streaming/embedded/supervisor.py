"""Run one command, and end it when the process that requested it has ended.

    python -I -S supervisor.py PARENT GRACE_S OUTPUT COMMAND...

The parent holds the other end of our stdin. It closes that end to stop the command, and the system
closes it when the parent dies, even by SIGKILL. A process that the parent forked may hold a copy of
it, so we also check that our parent is still the one that started us. If we are killed, the system
kills the command (Linux only). That signal is tied to the thread that started the command, which is
our only one; a thread of the parent might end at any time.

stdin:  `k` kills the command at once; end of file stops it (SIGTERM, after GRACE_S SIGKILL).
stdout: the command's process id, one line.
Exit status: the command's; 128 + signal if a signal ended it. An inherited file lock is held until
the command has ended. This file uses only the standard library: it is run by path, not imported.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
POLL_S = 2.0
FAILED_TO_START = 127


def main(arguments: list[str]) -> int:
    """Start the command, then wait for its end or an order."""
    parent, grace_s, output = int(arguments[0]), float(arguments[1]), arguments[2]
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # they arrive as bytes on the pipe
    command = start(arguments[3:], output)
    if command is None:
        return FAILED_TO_START
    os.write(1, b"%d\n" % command.pid)
    os.close(1)

    watched = [0, wake_read]
    kill_at = float("inf")
    while command.poll() is None:
        wait_s = max(0.0, min(POLL_S, kill_at - time.monotonic()))
        ready = select.select(watched, [], [], wait_s)[0]
        stop = os.getppid() != parent
        if wake_read in ready:
            stop |= signal.SIGTERM in os.read(wake_read, 64)
        if 0 in ready:
            order = os.read(0, 1)
            if order == b"k":
                command.kill()
            elif not order:
                watched.remove(0)
                stop = True
        if stop and kill_at == float("inf"):
            command.terminate()
            kill_at = time.monotonic() + grace_s
        elif time.monotonic() >= kill_at:
            command.kill()
            kill_at = time.monotonic() + POLL_S
    code = command.returncode
    return code if code >= 0 else 128 - code


def start(command: list[str], output: str) -> "subprocess.Popen[bytes] | None":
    """Start the command with its output in a file."""
    supervisor = os.getpid()
    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def die_with_supervisor() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # it ended before the line above
            os._exit(FAILED_TO_START)

    with open(output, "wb") as log:  # noqa: PTH123 (saves importing pathlib at every start)
        try:
            return subprocess.Popen(  # noqa: S603 (our caller composed it)
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_supervisor,  # noqa: PLW1509 (we have one thread)
            )
        except OSError as failure:
            log.write(str(failure).encode())
            return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
