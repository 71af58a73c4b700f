"""The log of `dlx run`: on stderr and in the log folder, as text or as one JSON object per line.

In JSON mode, whatever else this process or a library in it writes to stdout or stderr becomes
a line of the log as well (loggers `stdout` and `stderr`), so that every line can be parsed:

    {"time": "2026-11-22T14:05:00.123Z", "level": "INFO", "logger": "dlx", "message": "stopped"}

Tracebacks are in the member `exception`; the line of a batch has its figures as members.
"""

import atexit
import json
import logging
import os
import sys
import threading
import time
from collections import Counter, deque
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, TextIO

import msgspec

from streaming.ledger.batch_detail import GateState
from streaming.pipeline.reports import FAULT_KINDS, BatchDone, ShardStats
from streaming.spark.settings import LogFormat

JOB_LOG: Final = "dlx.log"
TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"

FIELDS: Final = "fields"
"""Attribute of a log record with further members of its JSON object: a dict."""

MAX_FILE_BYTES: Final = 8_388_608
OLD_FILES: Final = 3
MAX_WAITING: Final = 10_000
"""The most records that wait for the log folder."""

DRAIN_TIMEOUT_S: Final = 5.0

logger = logging.getLogger("dlx")


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return msgspec.json.encode(line, enc_hook=str).decode()


class _LogFile(RotatingFileHandler):
    """A file that others than the user and the group may not read."""

    def _open(self) -> TextIOWrapper:
        def create(path: str, flags: int) -> int:
            return os.open(path, flags, 0o640)

        return open(self.baseFilename, "a", encoding=self.encoding, opener=create)


class FolderHandler(logging.Handler):
    """Writes to a file once its folder exists; until then, records wait.

    The job creates its log folder only when it starts, so that a refused start leaves nothing
    behind.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._waiting: deque[logging.LogRecord] = deque(maxlen=MAX_WAITING)
        self._handler: RotatingFileHandler | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record to the file; keep it for later while the folder is missing."""
        if self._handler is None and self._file.parent.is_dir():
            self._handler = _LogFile(
                self._file, maxBytes=MAX_FILE_BYTES, backupCount=OLD_FILES, encoding="utf-8"
            )
            self._handler.setFormatter(self.formatter)
            while self._waiting:
                self._handler.emit(self._waiting.popleft())
        if self._handler is None:
            self._waiting.append(record)
        else:
            self._handler.emit(record)

    def close(self) -> None:
        """Close the file."""
        if self._handler is not None:
            self._handler.close()
        super().close()


class TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes to what is `sys.stderr` at that moment: a live view prints lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record to the terminal."""
        self.stream = sys.stderr
        super().emit(record)


class JobLog:
    """The log of a job, from its creation on; `keep_in` adds the log folder.

    Args:
        hides_batches: whether stderr shows no lines of batches, because a live view runs.
    """

    def __init__(self, log_format: LogFormat, *, hides_batches: bool = False) -> None:
        self._format = log_format
        self._output: CapturedOutput | None = None
        self.terminal: logging.StreamHandler[TextIO]
        if log_format == "json":
            self._output = CapturedOutput()
            self.terminal = logging.StreamHandler(self._output.original)
            sys.excepthook = _log_exception
            threading.excepthook = lambda hook: _log_exception(
                hook.exc_type, hook.exc_value or hook.exc_type(), hook.exc_traceback
            )
            atexit.register(self.close)
        else:
            self.terminal = TerminalHandler()
        if hides_batches:
            self.terminal.addFilter(lambda record: not hasattr(record, FIELDS))
        self.terminal.setFormatter(self._formatter())
        root = logging.getLogger()
        for handler in list(root.handlers):
            if isinstance(handler, TerminalHandler | FolderHandler):  # of an earlier command
                root.removeHandler(handler)
                handler.close()
        root.setLevel(logging.INFO)
        root.addHandler(self.terminal)
        logging.captureWarnings(capture=True)

    def keep_in(self, log_dir: Path) -> None:
        """Write the log to this folder as well, from the first line on.

        Tracebacks of py4j go there only.
        """
        from streaming.pipeline.observe.failures import divert_tracebacks  # noqa: PLC0415 - pyspark

        file = FolderHandler(log_dir / JOB_LOG)
        file.setFormatter(self._formatter())
        logging.getLogger().addHandler(file)
        divert_tracebacks((self.terminal, file), log_dir)

    def close(self) -> None:
        """Write what is left, and give stdout and stderr back."""
        if self._output is not None:
            self._output.close()
            self._output = None

    def _formatter(self) -> logging.Formatter:
        return JsonFormatter() if self._format == "json" else logging.Formatter(TEXT_FORMAT)


class CapturedOutput:
    """Turns lines that are written to stdout and stderr into records of the log.

    This includes what C libraries write: the file descriptors themselves are replaced.

    Attributes:
        original: the stderr of before.
    """

    def __init__(self) -> None:
        self.original: TextIO = os.fdopen(os.dup(2), "w", encoding="utf-8", buffering=1)
        self._before = {number: os.dup(number) for number in (1, 2)}
        self._threads = [
            self._captured(1, logging.getLogger("stdout"), logging.INFO),
            self._captured(2, logging.getLogger("stderr"), logging.ERROR),
        ]

    def close(self) -> None:
        """Restore the streams, and log what was written until then."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, before in self._before.items():
            os.dup2(before, number)
            os.close(before)
        for thread in self._threads:
            thread.join(DRAIN_TIMEOUT_S)
        self.original.flush()

    def _captured(self, number: int, logger: logging.Logger, level: int) -> threading.Thread:
        reading, writing = os.pipe()
        os.dup2(writing, number)
        os.close(writing)

        def read() -> None:
            with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    if line.strip():
                        logger.log(level, "%s", line.rstrip("\r\n"))

        thread = threading.Thread(target=read, name=f"captured-{logger.name}", daemon=True)
        thread.start()
        return thread


def _log_exception(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    logging.getLogger("dlx").critical(
        "an error in dlx: %s: %s", kind.__name__, error, exc_info=(kind, error, traceback)
    )


def batch_figures(
    done: BatchDone, stats: ShardStats, gate: GateState, clock: Literal["wall", "event"]
) -> dict[str, Any]:
    """Return rows, durations, resident messages, deaths by reason, faults, lag and gate.

    `lag_ms` is how far the job's time is behind the wall clock. With `clock = event`, that is the
    time of the batch's slowest shard; null if the batch had no shard.
    """
    deaths: Counter[str] = Counter()
    for report in done.reports:
        deaths.update(report.deaths)
    at_ms: int | None = done.now_ms
    if clock == "event":
        at_ms = min((report.now_ms for report in done.reports), default=None)
    return {
        "event": "batch",
        "batch_id": done.batch_id,
        "records": done.records,
        "publishes": sum(report.publishes for report in done.reports),
        "events": done.events,
        "seconds": done.seconds,
        "resident_messages": stats.resident_messages,
        "resident_bytes": stats.resident_bytes,
        "process_bytes": gate.process_bytes,
        "dead_letters": dict(sorted(deaths.items())),
        **{kind: done.faults.get(kind, 0) for kind in FAULT_KINDS},
        "lag_ms": None if at_ms is None else max(0, time.time_ns() // 1_000_000 - at_ms),
        "gate": "open" if gate.open else "closed",
        "gate_cause": gate.cause,
    }


def log_batch(figures: dict[str, Any]) -> None:
    """Log the figures: a log of text has them as JSON, one of JSON as members."""
    members = {"message": f"batch {figures['batch_id']}", **figures}
    logger.info("%s", json.dumps(figures), extra={FIELDS: members})
