"""The process that Spark forks Python workers from: pyspark's daemon with our imports loaded.

Spark ends workers that were idle for a minute. Without this module, the next command to an idle job
would wait until new workers have imported everything: two seconds of processor time each.
"""

import gc
from contextlib import suppress
from importlib import import_module

from pyspark import daemon

from streaming.spark.executor_facts import facts_here

PRELOADED = (
    "pandas",
    "pyspark.worker",
    "streaming.pipeline.intake.stage",
    "streaming.pipeline.fold",
)

with suppress(ImportError):  # the first task says what is missing (`executor_facts`)
    for module in PRELOADED:
        import_module(module)

if __name__ == "__main__":
    facts_here()
    gc.collect()
    gc.freeze()  # workers collect after each task and can skip all of this
    daemon.manager()
