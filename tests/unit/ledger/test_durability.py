"""What a power failure leaves in Delta's log is mended, or refused with the place."""

import pytest

from streaming.ledger.errors import DamagedLogError
from streaming.ledger.upkeep.maintenance import Schedule, TableMaintenance
from streaming.ledger.write.ledger import Ledger
from tests.unit.ledger.builders import (
    QUERY,
    a_batch_row,
    a_place,
    events,
    local,
    paths_of,
    publish,
    rows_of,
)


@pytest.fixture
def root(tmp_path):
    """Tables with two batches."""
    root = a_place(tmp_path)
    with Ledger(root) as ledger:
        for batch in range(2):
            commit(ledger, batch)
    return root


def commit(ledger, batch):
    rows = events(range(3 * batch, 3 * batch + 3), batch_id=batch)
    return ledger.commit([publish(ledger.root, "events", rows)], a_batch_row(batch))


def log_of(root, name="events"):
    return local(root, name).root / "_delta_log"


@pytest.mark.parametrize("left", [b"", b"\0" * 100, b'{"commitInfo": {"times'])
def test_an_incomplete_last_entry_is_removed_and_the_batch_is_committed_again(root, left):
    last = max(log_of(root).glob("*.json"))
    last.write_bytes(left)

    with Ledger(root) as ledger:
        assert ledger.last_batch(QUERY) == a_batch_row(0)
        outcomes = commit(ledger, 1).outcomes

    assert outcomes["events"] == "committed"
    assert len(paths_of(root, "events")) == 4
    assert len(rows_of(root, "events")) == 8


def test_an_incomplete_earlier_entry_is_refused_with_its_path(root):
    earlier = sorted(log_of(root).glob("*.json"))[-2]
    earlier.write_bytes(b"")

    with pytest.raises(DamagedLogError, match=f"{earlier} is incomplete"):
        Ledger(root)

    assert earlier.exists()


def test_a_damaged_pointer_to_the_last_checkpoint_is_removed(root):
    maintenance = TableMaintenance(root, "events", Schedule(checkpoint_commits=1))
    assert [each.task for each in maintenance.step(0)] == ["checkpoint"]
    (log_of(root) / "_last_checkpoint").write_bytes(b"")

    with Ledger(root) as ledger:
        assert ledger.last_batch(QUERY) == a_batch_row(1)


def test_an_empty_checkpoint_is_refused(root):
    (log_of(root) / f"{2:020}.checkpoint.parquet").touch()

    with pytest.raises(DamagedLogError, match=r"checkpoint\.parquet is incomplete"):
        Ledger(root)
