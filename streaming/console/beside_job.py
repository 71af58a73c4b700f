"""The console beside a job: a process of its own, at low priority, that ends with the job.

The job holds the other end of the process's stdin. The system closes that end when the job ends,
even by SIGKILL. Pages then cost the job neither its threads nor its memory.

Others may read the log of a job, so a link that logs in is not in it, but in a file of the user.
"""

import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from streaming.config.console import ConsoleSettings
from streaming.config.metrics import split_address
from streaming.console.token import TOKEN
from streaming.listening import listen
from streaming.niceness import make_session_nice
from streaming.user_folders import user_state_folder

BESIDE_JOB: Final = "--beside-job"
"""The option by which `dlx console` knows that a job has started it."""

NICE: Final = 15
"""On Linux, a thirtieth of a core that the job wants too; what it does not want is not limited."""

STOP_S: Final = 10

_TOKEN: Final = re.compile(rf"[/?&]*\b{TOKEN}=\S+")

logger = logging.getLogger(__name__)


class ConsoleProcess:
    """The console of a job. The log has its address, and where the link that logs in is.

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
        listen(
            "console", *split_address(settings.listen)
        ).close()  # refuse now rather than in the process
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
        self._link = user_state_folder() / "console" / f"link-{split_address(settings.listen)[1]}"
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
        self._link.unlink(missing_ok=True)

    def _log(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                said = line.rstrip()
                if not said.startswith("http"):
                    logger.warning("console: %s", said)
                elif f"{TOKEN}=" in said:
                    self._announce(said)
                else:
                    logger.info("console: %s", said)
        status = self._process.wait()
        if not self._is_stopping:
            logger.warning("console: it ended with status %d; the job goes on", status)

    def _announce(self, link: str) -> None:
        """Keep a link that logs in once where only this user finds it."""
        address = _TOKEN.sub("/", link)
        if sys.stderr.isatty():
            print(f"console: {link}", file=sys.stderr)  # noqa: T201 - a terminal is no file
        try:
            self._link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._link.unlink(missing_ok=True)  # a file of before may be readable by others
            own = os.open(self._link, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(own, "w") as file:
                file.write(f"{link}\n")
        except OSError as error:
            logger.warning(
                "console: %s; the link that logs in cannot be kept in %s: %s; name users with "
                "console.credentials instead",
                *(address, self._link, error.strerror),
            )
        else:
            logger.info(
                "console: %s; %s has a link that logs in once, for you alone", address, self._link
            )


def yield_to_job() -> None:
    """Give this process, and its session if it leads one, what processor time others leave."""
    os.nice(NICE)
    make_session_nice(os.getpid(), NICE)


def end_with_job(stop: Callable[[], None]) -> None:
    """Call a function once the job has ended."""

    def wait() -> None:
        sys.stdin.buffer.read()
        stop()

    threading.Thread(target=wait, name="job-watch", daemon=True).start()
