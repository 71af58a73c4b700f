"""What Python's garbage collector looks at in a worker."""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]

TASKS = """
import gc
import weakref

from pyspark import daemon

class Kept:
    pass

kept = {}

def task(number, _authenticated):
    kept[number] = Kept()
    kept[number].itself = kept[number]
    return 7

daemon.worker = task

from streaming.pipeline import worker_daemon

worker_daemon.COMPLETE_EVERY = 3
gc.disable()
for number in (1, 2, 3):
    assert worker_daemon.run_task(number, False) == 7
    gc.collect()  # as pyspark does after each task
    seen = [one for one in gc.get_objects() if isinstance(one, Kept)]
    assert seen == [kept[number]], number
    if number == 2:
        first = weakref.ref(kept.pop(1))
        gc.collect()
        assert first() is not None
assert first() is None
"""


def test_a_collection_skips_what_existed_before_the_task_but_now_and_then():
    subprocess.run([sys.executable, "-c", TASKS], cwd=CHECKOUT, check=True)
