"""What the job's log says about executors that come and go."""

import logging
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no types

from streaming.spark.executor_check import ExecutorChanges

DRIVER = "127.0.0.1:1"


class Spark:
    """A session whose executors a test chooses; None: Spark has ended."""

    def __init__(self, *executors: str) -> None:
        self.executors: tuple[str, ...] | None = executors
        java = SimpleNamespace(sc=lambda: self)
        self.sparkContext = SimpleNamespace(_jsc=java)

    def getExecutorMemoryStatus(self) -> Any:  # noqa: N802 - Spark's name
        if self.executors is None:
            raise Py4JError("the connection is closed")
        words = " ".join((DRIVER, *self.executors))
        return SimpleNamespace(keys=lambda: SimpleNamespace(mkString=lambda _separator: words))


def test_executors_that_join_or_are_lost_are_logged_once(caplog):
    caplog.set_level(logging.INFO, "dlx")
    spark: Any = Spark("a:1", "b:1")
    changes = ExecutorChanges(spark)

    for executors in (("a:1", "b:1"), ("a:1", "b:1", "c:1"), ("b:1", "c:1"), None, ("b:1", "c:1")):
        spark.executors = executors
        changes.log()

    assert [record.getMessage() for record in caplog.records] == [
        "an executor has joined: c:1; there are 3",
        "an executor is lost: a:1; 2 remain",
    ]
