"""Waiting for a query's end, and explaining why it ended."""

import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no types
from pyspark import accumulators
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.pipeline.topics.offset_gaps import GapWatch
from streaming.spark.executor_check import ExecutorsError
from streaming.spark.executor_facts import ExecutorMismatchError
from streaming.spark.session import explain_lost_jvm
from topology.errors import DlxError

PY4J_LOG = "py4j.log"


class SparkLostError(DlxError):
    """Spark's JVM has ended: there is no query any more, and nothing to stop."""

    help_code = "spark-lost"


def wait_for_end(
    query: StreamingQuery, timeout_s: float, watch: GapWatch, spark: SparkSession | None
) -> bool:
    """Wait; return whether the query has ended. `spark` is the job's own session, if any.

    Raises:
        DlxError: Kafka has lost records that the job had not read.
        SparkLostError: Spark's JVM has ended.
        StreamingQueryException: another failure.
    """
    if watch.failure is not None:
        raise watch.failure
    try:
        return bool(query.awaitTermination(timeout_s))  # type: ignore[arg-type] # takes fractions
    except StreamingQueryException:
        lost = watch.find(planned=False)
        if lost is not None:
            raise lost from None
        raise
    except (Py4JError, OSError):
        gone = None if spark is None else explain_lost_jvm(spark)
        if gone is None:
            raise
        raise SparkLostError(str(gone)) from None


def divert_tracebacks(handlers: Iterable[logging.Handler], log_dir: Path) -> None:
    """Write the tracebacks of py4j and pyspark to a file in `log_dir` instead of the log.

    If Spark's JVM ends or a batch fails, py4j logs tracebacks of a hundred lines, some of them with
    the root logger, and pyspark's servers print theirs. The job explains the failure by itself.
    """
    file = logging.FileHandler(log_dir / PY4J_LOG, delay=True)
    file.addFilter(_is_from_py4j)
    for handler in handlers:
        file.setFormatter(handler.formatter)
        handler.addFilter(lambda record: not _is_from_py4j(record))
    logging.getLogger().addHandler(file)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    servers: tuple[Any, ...] = (
        accumulators.AccumulatorTCPServer,
        accumulators.AccumulatorUnixServer,
    )
    for server in servers:
        server.handle_error = _log_server_error


def _is_from_py4j(record: logging.LogRecord) -> bool:
    return record.name.startswith("py4j") or "py4j" in Path(record.pathname).parts


def _log_server_error(_server: object, _request: object, _address: object) -> None:
    """Log what `socketserver` would print."""
    logging.getLogger("py4j.accumulators").error(
        "a request of Spark's JVM failed", exc_info=sys.exception()
    )


def failure_text(error: Exception) -> str:
    """The text of a failure that names the kind of the error."""
    kind = type(error).__name__
    return f"{kind}: {error}" if isinstance(error, DlxError) else str(error)


def code_of_failure(text: str) -> str:
    """The help code of the error that ended a batch, by its name in the text that Spark has of it.

    A batch runs in a thread of Spark's, and parts of it in other processes, so the error itself is
    gone.
    """
    return _found(text)[0]


def reason_of_failure(text: str) -> str | None:
    """What that error says; None if it is none of ours. Tracebacks are before it in the text."""
    return _found(text)[1]


def _found(text: str) -> tuple[str, str | None]:
    codes = {ExecutorMismatchError.__name__: ExecutorsError.help_code}  # needs no other package
    kinds = [DlxError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        codes[kind.__name__] = kind.help_code
    for name, code in codes.items():
        _before, is_named, said = text.partition(f"{name}: ")
        if code and is_named:
            return code, said.split("\n", 1)[0]
    return "batch-failed", None
