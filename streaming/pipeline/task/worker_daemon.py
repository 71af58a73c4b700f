"""What Python workers are forked from: pyspark's daemon with everything they need imported.

Spark ends workers that had nothing to do for a minute. Whoever speaks to an idle job then waits for
new ones, and for what they import: two seconds of processor time each. Here they have it already.
"""

import gc

import pandas as pd
from pyspark import daemon, worker

from streaming.pipeline.fold import processor
from streaming.pipeline.intake import stage

PRELOADED = (pd, worker, stage, processor)

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # workers collect after each task, and need not look at all this
    daemon.manager()
