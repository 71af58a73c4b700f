"""The console beside a job: a process of its own, at low priority, that ends with the job.

The job holds the other end of the process's stdin. The system closes that end when the job ends,
even by SIGKILL. Pages then cost the job neither its threads nor its memory.
"""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from streaming.config.console import ConsoleSettings
from streaming.config.metrics import split_address
from streaming.console.listening import listen

BESIDE_JOB: Final = "--beside-job"
"""The option by which `dlx console` knows that a job has started it."""

NICE: Final = 15
"""On Linux, a thirtieth of a core that the job wants too; what it does not want is not limited."""

AUTOGROUP: Final = Path("/proc/self/autogroup")
"""Where Linux shares processor time between sessions first, the priority of this one."""

STOP_S: Final = 10

logger = logging.getLogger(__name__)


class ConsoleProcess:
    """The console of a job. Its links go to the log.

    Args:
        settings: `listen` is set.
        config: the job's configuration file.

    Raises:
        ListenError: the address is in use, or not one of this machine.
        ModuleNotFoundError: the extra `console` is not installed.
    """

    def __init__(self, settings: ConsoleSettings, config: Path) -> None:
        for module in ("starlette", "uvicorn", "jinja2"):
            if find_spec(module) is None:
                raise ModuleNotFoundError(f"there is no module {module}", name=module)
        assert settings.listen is not None
        listen(*split_address(settings.listen)).close()  # refuse now rather than in the process
        command = ["-P", "-m", "streaming.cli", "console", BESIDE_JOB, "--config", str(config)]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C first stops the job
        )
        self._is_stopping = False
        self._thread = threading.Thread(target=self._log, name="console-log", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def stop(self) -> None:
        """End the process."""
        self._is_stopping = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()

    def _log(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                level = logging.INFO if line.startswith("http") else logging.WARNING
                logger.log(level, "console: %s", line.rstrip())
        status = self._process.wait()
        if not self._is_stopping:
            logger.warning("console: it ended with status %d; the job goes on", status)


def yield_to_job() -> None:
    """Give this process, and its session if it leads one, what processor time others leave."""
    os.nice(NICE)
    if os.getsid(0) != os.getpid():
        return
    with contextlib.suppress(OSError):  # another system, or it does not group sessions
        AUTOGROUP.write_text(str(NICE))


def end_with_job(stop: Callable[[], None]) -> None:
    """Call a function once the job has ended."""

    def wait() -> None:
        sys.stdin.buffer.read()
        stop()

    threading.Thread(target=wait, name="job-watch", daemon=True).start()
