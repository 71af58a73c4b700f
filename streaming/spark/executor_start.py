"""What happens where tasks run while the driver prepares the query.

    a cluster: executors join -> each says what it has -> each does once what the first batch would
               wait for
    one machine: Python starts

What a batch would wait for is a small query with the operators of the job: Spark loads classes,
compiles, connects to the storage and starts Python workers, which import everything. On one
executor this takes more than ten seconds of processor time, whether or not the batch has records.
On one machine the driver loads and compiles the same meanwhile; only Python is left.
"""

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no types
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streaming.spark.executor_check import check_executors
from streaming.spark.executor_facts import Executor, Facts

logger = logging.getLogger("dlx")

_RAN: Final = "ran boolean"


class ExecutorStart:
    """Checks executors and warms them up, in a thread.

    Args:
        wanted: what the driver has.
        read: the URL of a small file in the storage, for Spark; None: warm nothing up.
    """

    def __init__(self, spark: SparkSession, wanted: Facts, read: str | None) -> None:
        self._spark = spark
        self._wanted = wanted
        self._read = read
        self._found: list[Executor] = []
        self._failure: Exception | None = None
        self._is_checked = threading.Event()
        threading.Thread(target=self._run, name="executors", daemon=True).start()

    def executors(self) -> list[Executor]:
        """Wait for the check, and return what the executors have.

        Raises:
            ExecutorsError: see `check_executors`.
        """
        self._is_checked.wait()
        if self._failure is not None:
            raise self._failure
        return self._found

    def _run(self) -> None:
        try:
            self._found = check_executors(self._spark, self._wanted)
        except Exception as failure:  # noqa: BLE001 - raised where somebody waits
            self._failure = failure
            return
        finally:
            self._is_checked.set()
        if self._read is not None:
            with _may_fail("the executors were not warmed up"):
                warm_up(self._spark, self._read)


def start_python(spark: SparkSession) -> threading.Thread:
    """Start the Python that workers are forked from, which imports everything, in a thread."""

    def run() -> None:
        with _may_fail("Python was not started before the first batch"):
            spark.range(1, numPartitions=1).mapInArrow(_pass_on, "id long").collect()

    thread = threading.Thread(target=run, name="python", daemon=True)
    thread.start()
    return thread


@contextmanager
def _may_fail(said: str) -> Iterator[None]:
    """Log a failure of Spark: what comes later would only have been faster.

    A session that is stopped meanwhile has no parts that PySpark asks for.
    """
    try:
        yield
    except (Py4JError, PySparkException, AttributeError) as failure:
        logger.debug("%s: %s", said, failure)


def warm_up(spark: SparkSession, file: str) -> None:
    """Run a query like a batch of the job on all cores of the executors.

    Args:
        file: the URL of a small file that executors read.
    """
    assert spark.streams is not None  # starts what state stores of executors register with
    tasks = spark.sparkContext.defaultParallelism
    (
        spark.read.format("binaryFile")
        .load([file] * tasks)
        .selectExpr("path", "length")
        .mapInArrow(_pass_on, "path string, length long")
        .groupBy("length")
        .transformWithState(
            statefulProcessor=_Idle(),
            outputStructType=_RAN,
            outputMode="Append",
            timeMode="None",
        )
        .collect()
    )


def _pass_on(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches


class _Idle(StatefulProcessor):
    """Writes one value to its state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get the state."""
        self._state = handle.getMapState("warm", "key string", "value binary")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's signature
    ) -> Iterator[Row]:
        """Write a value, and say whether there were rows."""
        self._state.updateValue(("key",), (b"value",))
        yield Row(ran=any(rows))

    def close(self) -> None:
        """Do nothing: the state is Spark's."""
