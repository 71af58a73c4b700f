"""The process that Spark forks Python workers from: pyspark's daemon with our imports loaded.

Spark ends workers that were idle for a minute. Without this module, the next command to an idle job
would wait until new workers have imported everything: two seconds of processor time each.

Python's garbage collector runs after each task, in pyspark's daemon, and only then. It skips what
existed before the task: a worker that keeps 10,000 queues would need 0.1 s to look at them.
"""

import gc
from contextlib import suppress
from importlib import import_module
from itertools import count
from typing import Any

from pyspark import daemon

from streaming.spark.executor_facts import facts_here

PRELOADED = (
    "pandas",
    "pyspark.worker",
    "streaming.pipeline.intake.stage",
    "streaming.pipeline.fold",
)

COMPLETE_EVERY = 1_000
"""After this many tasks of a worker, one collection looks at everything."""

_run_task = daemon.worker
_tasks = count(1)


def run_task(sock: Any, authenticated: Any) -> Any:
    """Run one task as pyspark does, in a worker whose last task's garbage was collected."""
    if next(_tasks) % COMPLETE_EVERY == 0:
        gc.unfreeze()
        gc.collect()
    gc.freeze()
    return _run_task(sock, authenticated)


with suppress(ImportError):  # the first task says what is missing (`executor_facts`)
    for module in PRELOADED:
        import_module(module)

if __name__ == "__main__":
    facts_here()
    gc.collect()
    gc.disable()
    daemon.worker = run_task
    daemon.manager()
