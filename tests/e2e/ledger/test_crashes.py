"""A batch interrupted at any point, any number of times: its replay gives the same tables."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.ledger.batch_detail import BatchRow
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.write.ledger import Ledger
from streaming.ledger.write.table_writer import TableWriter
from streaming.storage.local import LocalStorage
from streaming.storage.location import Location
from tests.unit.ledger.builders import (
    a_batch_row,
    a_place,
    local,
    paths_of,
    publish,
    rows_of,
    tables_of,
)


class Crash(Exception):  # noqa: N818 - it stands for a crash
    """The process ends here."""


@dataclass
class Steps:
    """Counts the points at which a process can end, and ends it at one of them."""

    crash_at: int
    taken: int = 0

    def step(self):
        self.taken += 1
        if self.taken == self.crash_at:
            raise Crash


@dataclass(frozen=True)
class CrashingStorage(LocalStorage):
    steps: Steps = field(default_factory=lambda: Steps(0))

    def create(self, path, write):
        def write_half_then_whole(file):
            self.steps.step()
            write(file)
            self.steps.step()

        self.steps.step()
        created = super().create(path, write_half_then_whole)
        self.steps.step()
        return created


class CrashingWriter(TableWriter):
    """A table's writer in a process that may end before or after each commit."""

    def __init__(self, root, name, steps):
        super().__init__(root, name)
        self._steps = steps
        self.storage = CrashingStorage(local(root, name).root, durable=False, steps=steps)

    def commit_batch(self, query_id, batch_id, files, *, even_empty=False):
        if files:
            self._steps.step()
        outcome = super().commit_batch(query_id, batch_id, files, even_empty=even_empty)
        if files:
            self._steps.step()
        return outcome


def attempt(root: Location, batch: dict[str, pa.Table], row: BatchRow, steps: Steps) -> None:
    """One run of a process: the tasks publish, the driver commits."""
    with Ledger(root) as ledger:
        for name in LEDGER:
            ledger.writers[name] = CrashingWriter(root, name, steps)
        files = [
            publish(root, name, rows, storage=ledger.writers[name].storage)
            for name, rows in batch.items()
        ]
        ledger.commit(files, row)


batches = st.lists(
    st.dictionaries(st.sampled_from(LEDGER), st.integers(1, 3), min_size=1), min_size=1, max_size=2
)


def history(sizes):
    first = 0
    for batch_id, by_table in enumerate(sizes):
        tables = tables_of(batch_id, seqs=range(first, first + 3))
        yield batch_id, {name: tables[name].slice(0, rows) for name, rows in by_table.items()}
        first += 3


@settings(max_examples=12)  # each has a dozen runs of a process
@given(batches, st.lists(st.integers(1, 40), max_size=4))
def test_a_crash_between_any_two_steps_and_a_replay_give_the_same_tables(sizes, crashes):
    with TemporaryDirectory() as folder:
        undisturbed, disturbed = a_place(Path(folder) / "one"), a_place(Path(folder) / "two")
        for batch_id, tables in history(sizes):
            attempt(undisturbed, tables, a_batch_row(batch_id), Steps(0))
            for crash_at in crashes:
                try:
                    attempt(disturbed, tables, a_batch_row(batch_id), Steps(crash_at))
                except Crash:
                    continue
            attempt(disturbed, tables, a_batch_row(batch_id), Steps(0))

        expected: Counter[str] = Counter()
        for rows_by_table in sizes:
            expected.update(rows_by_table)
        for name in LEDGER:
            written = len(rows_of(undisturbed, name))
            assert written == expected[name] + (len(sizes) if name == "events" else 0)
            assert rows_of(disturbed, name) == rows_of(undisturbed, name)
            assert paths_of(disturbed, name) == paths_of(undisturbed, name)


def test_a_batch_can_crash_after_any_of_its_steps(tmp_path):
    root = a_place(tmp_path / "undisturbed")
    tables = tables_of(0)
    whole = Steps(0)
    attempt(root, tables, a_batch_row(0), whole)
    expected = {name: rows_of(root, name) for name in LEDGER}

    for crash_at in range(1, whole.taken + 1):
        place = a_place(tmp_path / str(crash_at))
        with pytest.raises(Crash):
            attempt(place, tables, a_batch_row(0), Steps(crash_at))
        attempt(place, tables, a_batch_row(0), Steps(0))

        assert {name: rows_of(place, name) for name in LEDGER} == expected
    assert whole.taken == 5 * 4 + 4 * 2
