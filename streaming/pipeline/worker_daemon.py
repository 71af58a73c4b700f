"""The process that Spark forks Python workers from: pyspark's daemon with our imports loaded.

Spark ends workers that were idle for a minute. Without this module, the next command to an idle job
would wait until new workers have imported everything: two seconds of processor time each.
"""

import gc

import pandas as pd
from pyspark import daemon, worker

from streaming.pipeline import fold
from streaming.pipeline.intake import stage

PRELOADED = (pd, worker, stage, fold)

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # workers collect after each task and can skip all of this
    daemon.manager()
