"""What processes of a benchmark use."""

import os
import time

from tests.bench.processes import SAMPLE_S, CpuUse


def burn(seconds):
    ended_s = time.process_time() + seconds
    while time.process_time() < ended_s:
        pass


def test_what_is_shorter_than_a_sample_has_its_part_of_it():
    with CpuUse({os.getpid(): "me"}) as cpu:
        burn(SAMPLE_S / 10)  # the first sample is before it, or in it
        start_s = time.time()
        burn(SAMPLE_S / 10)
        found = cpu.cores(start_s, time.time())

    assert found["me_cores"] > 0
    assert found["spark_cores"] == 0
