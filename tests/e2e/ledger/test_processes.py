"""Killed processes, and processes that repeat each other's work, leave the same tables."""

import random
import subprocess
import sys
import time

import pytest

from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.write.batch_row import batch_rows
from tests.fixtures.child import Child
from tests.unit.ledger.builders import QUERY, a_batch_row, a_place, rows_of

BATCHES = 25
KILLS = 10


def start(folder, batches=BATCHES):
    return Child(
        [sys.executable, "-m", "tests.e2e.ledger.worker", str(folder), str(batches)],
        stderr=subprocess.PIPE,
    )


def finish(*processes):
    said = [process.communicate() for process in processes]
    for process, (output, errors) in zip(processes, said, strict=True):
        assert process.returncode == 0, errors
        assert output.split()[-1] == "done", errors


def expected_tables(tmp_path):
    finish(start(tmp_path / "undisturbed"))
    root = a_place(tmp_path / "undisturbed")
    return {name: rows_of(root, name) for name in LEDGER}


def assert_same(root, expected):
    for name in LEDGER:
        assert rows_of(root, name) == expected[name]
    events = load_table(root / "events")
    found = list(batch_rows(events, (root / "events").storage(), QUERY, 0, BATCHES))
    assert found == [a_batch_row(batch, mean_bytes=float(BATCHES)) for batch in range(BATCHES)]


@pytest.mark.long
def test_a_process_killed_at_any_instant_and_restarted_gives_the_same_tables(tmp_path):
    expected = expected_tables(tmp_path)
    chance = random.Random(4)
    root = a_place(tmp_path / "disturbed")

    killed = 0
    for _ in range(KILLS):
        process = start(tmp_path / "disturbed")
        assert process.line() == "ready"
        time.sleep(chance.uniform(0, 0.4))
        process.kill()
        process.communicate()
        killed += process.returncode == -9
    finish(start(tmp_path / "disturbed"))

    assert killed > KILLS // 2
    assert_same(root, expected)


@pytest.mark.long
def test_three_concurrent_drivers_write_every_row_once(tmp_path):
    expected = expected_tables(tmp_path)

    finish(*[start(tmp_path / "shared") for _ in range(3)])

    assert_same(a_place(tmp_path / "shared"), expected)
