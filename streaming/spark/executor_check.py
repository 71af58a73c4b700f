"""The handshake with a cluster's executors: the first tasks say what each of them has.

Executors that join later are checked by their own first task (`executor_facts.check_here`).
"""

import logging
import re
import time
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no types
from pyspark.sql import SparkSession

from streaming.config.job import is_local
from streaming.spark.executor_facts import Executor, Facts, facts_here, mismatch, probe
from streaming.spark.executor_packages import ENVIRONMENT
from topology.errors import DlxError

logger = logging.getLogger("dlx")

JOIN_TIMEOUT_S: Final = 120.0
"""How long to wait for the first executor."""

POLL_S: Final = 0.2
TASKS_PER_CORE: Final = 2
"""Spark places tasks where it likes; with this many, each executor gets some."""

_NO_PYTHON: Final = re.compile(r"dlx: no executor Python: (.+)")
_OTHER_PYTHON: Final = re.compile(
    r"Python in worker has different version[: ]+(\S+) than that in driver[: ]+([0-9.]+)"
    r"|worker has different version ([0-9.]+) than that in driver ([0-9.]+)"
)
_NO_MODULE: Final = re.compile(r"No module named '?([A-Za-z0-9_.]+)'?")


class ExecutorsError(DlxError):
    """A cluster has no executors for the job, or they cannot run its tasks."""

    help_code = "executors"


def check_executors(spark: SparkSession, wanted: Facts) -> list[Executor]:
    """Wait for executors, run a task on each, and compare what they have with the driver.

    Returns:
        What each executor has, sorted by name.

    Raises:
        ExecutorsError: none joined, or one has another Python, other packages or other code.
    """
    context = spark.sparkContext
    _wait_for_executors(context)
    tasks = max(context.defaultParallelism, _executors(context)) * TASKS_PER_CORE
    try:
        answers = context.parallelize(range(tasks), tasks).mapPartitions(probe).collect()
    except Py4JError as failure:
        raise ExecutorsError(explain(str(failure), wanted)) from None
    found = {name: Executor(name, Facts(*facts)) for name, facts in answers}
    executors = [found[name] for name in sorted(found)]
    refusal = mismatch(wanted, executors)
    if refusal is not None:
        raise ExecutorsError(refusal)
    return executors


def facts_of_driver(spark: SparkSession) -> Facts | None:
    """What tasks compare themselves with; None if they run in processes of this machine's job."""
    if is_local(str(spark.sparkContext.master)):
        return None
    ships = ENVIRONMENT in str(spark.conf.get("spark.executorEnv.PYTHONPATH", ""))
    return facts_here()._replace(ships_packages=ships)


class ExecutorChanges:
    """Logs executors that join or are lost; one that is replaced does both."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext
        self._known = self._present()

    def log(self) -> None:
        """Log what has changed since the last call."""
        known = self._known
        try:
            self._known = self._present()
        except Py4JError:  # Spark has ended, which others report
            return
        count = len(self._known) - 1  # without the driver
        for one in sorted(self._known - known):
            logger.info("an executor has joined: %s; there are %d", one, count)
        for one in sorted(known - self._known):
            logger.warning("an executor is lost: %s; %d remain", one, count)

    def _present(self) -> frozenset[str]:
        """The addresses of all executors, and that of the driver."""
        status = self._context._jsc.sc().getExecutorMemoryStatus()  # noqa: SLF001 (no public way to ask)
        return frozenset(str(status.keys().mkString(" ")).split())


def _executors(context: Any) -> int:
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # noqa: SLF001 (no public way to ask)


def _wait_for_executors(context: Any) -> None:
    deadline_s = time.monotonic() + JOIN_TIMEOUT_S
    while not _executors(context):
        if time.monotonic() > deadline_s:
            raise ExecutorsError(
                f"job.master: no executor of {context.master} joined within {JOIN_TIMEOUT_S:.0f} "
                "s. Start workers, or give the job less: spark.executor.memory and "
                "spark.executor.cores in [job.spark_properties] must fit into a worker, and "
                "workers must reach this machine (spark.driver.host)"
            )
        time.sleep(POLL_S)


def explain(text: str, wanted: Facts) -> str:
    """Return why the first tasks failed, with the remedy.

    Args:
        text: Spark's text of the failure.
        wanted: what the driver has.
    """
    no_python = _NO_PYTHON.search(text)
    if no_python is not None:
        return (
            f"job.executor_python: executors have no {no_python[1]}. Name the Python "
            "that they have, with the same version as the driver's"
        )
    other = _OTHER_PYTHON.search(text)
    if other is not None:
        there, here = [each for each in other.groups() if each]
        return (
            f"job.executor_python: executors run Python {there.rstrip(',')}, and the driver runs "
            f"{here}. Name a Python {here} that the executors have"
        )
    missing = _NO_MODULE.search(text)
    if missing is not None:
        name = missing[1].split(".")[0]
        return (
            f"job.executor_packages: executors have no Python package {missing[1]}. "
            f"{wanted.remedy_of_packages({name})}"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line for line in lines if "Exception" in line or "Error" in line), lines[0])
    return f"job.master: the executors cannot run a task: {said[:500]}"
