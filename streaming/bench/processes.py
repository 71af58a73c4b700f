"""Processes under test: started, ended as an operator would, or killed with all they started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

STOP_WAIT_S = 180


class Process:
    """One of our modules as a process; what it prints is kept in a file.

    Args:
        name: of the log file, `NAME.log`.
        arguments: of `python -m`.
    """

    def __init__(self, root: Path, name: str, *arguments: str) -> None:
        self.name = name
        self.log = root / f"{name}.log"
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process, while it is there."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it; once more after it ended."""
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", *self._arguments]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - ours

    def kill(self) -> None:
        """SIGKILL for it and everything that it started, at once."""
        if self._process is None:
            return
        try:
            family = [psutil.Process(self._process.pid)]
            family += family[0].children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        for member in family:
            try:
                member.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """SIGTERM, and wait; killed when that does not help.

        Raises:
            RuntimeError: it ended with an error; the end of its log is in the text.
        """
        if self._process is None:
            return
        self._process.terminate()
        try:
            code = self._process.wait(timeout=STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -9
        self._process = None
        if code:
            raise RuntimeError(f"{self.name} ended with {code}:\n{self.last_words()}")

    def check(self) -> None:
        """Raise if it ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            code, self._process = self._process.returncode, None
            raise RuntimeError(f"{self.name} ended by itself with {code}:\n{self.last_words()}")

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""
