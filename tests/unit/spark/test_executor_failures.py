"""Why the first tasks on executors cannot run."""

from typing import Any

import pytest
from pyspark.errors import PySparkException

from streaming.spark.executor_check import ExecutorsError, explain
from streaming.spark.executor_facts import facts_here
from streaming.spark.executor_start import ExecutorStart, start_python


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            "org.apache.spark.SparkException: \nError from python worker:\n"
            "  dlx: no executor Python: /opt/python 3.11\nPYTHONPATH was:\n  /opt/spark/x.zip",
            "job.executor_python: executors have no /opt/python 3.11. Name",
        ),
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
            "version: 3.12 than that in driver: 3.11, PySpark cannot run",
            "job.executor_python: executors run Python 3.12, and the driver runs 3.11. Name",
        ),
        (
            "Error from python worker:\n  ModuleNotFoundError: No module named 'pyspark'",
            "no Python package pyspark. Spark brings pyspark: run workers with Spark",
        ),
    ],
)
def test_tasks_that_cannot_run_are_explained_with_a_remedy(said, named):
    assert named in explain(said, facts_here())


def test_packages_that_are_sent_already_are_no_remedy_of_a_missing_one():
    said = explain("No module named 'pyarrow.lib'", facts_here()._replace(ships_packages=True))

    assert "no Python package pyarrow.lib. The driver sends its packages." in said
    assert '"shipped"' not in said


class NoExecutors:
    """A session of a cluster that has no worker."""

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - Spark's name
        raise ExecutorsError("none joined")


def test_a_check_that_fails_in_its_thread_fails_the_start():
    spark: Any = NoExecutors()

    start = ExecutorStart(spark, facts_here(), "s3a://b/dlx.json")

    with pytest.raises(ExecutorsError, match="none joined"):
        start.executors()


class StoppedSpark:
    """A session that was stopped meanwhile."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    def range(self, *_: int, **__: int) -> Any:
        raise self._failure


@pytest.mark.parametrize("failure", [PySparkException("stopped"), AttributeError("setCallSite")])
def test_a_session_that_stops_while_python_starts_is_no_failure(failure):
    stopped: Any = StoppedSpark(failure)

    start_python(stopped).join()
