"""A driver that lost its lease cannot commit, however long it slept and wherever."""

import pytest

from streaming.ledger.errors import FencedError
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.write.job_fence import FENCE_ID, Fence
from streaming.ledger.write.ledger import Ledger
from tests.fixtures.object_store import object_store, shared_place
from tests.unit.ledger.builders import QUERY, a_batch_row, a_place, publish, rows_of, tables_of

__all__ = ["object_store", "shared_place"]


@pytest.fixture(params=["local", "object store"])
def root(request, tmp_path):
    if request.param == "local":
        return a_place(tmp_path)
    return request.getfixturevalue("shared_place")


@pytest.fixture
def driver(root):
    """Opens the ledger as a driver of an epoch."""
    opened = []

    def start(epoch):
        ledger = Ledger(root)
        opened.append(ledger)
        ledger.raise_fence(Fence(epoch, lambda: None))
        return ledger

    yield start
    for ledger in opened:
        ledger.close()


def commit(ledger, batch_id):
    files = [publish(ledger.root, name, rows) for name, rows in tables_of(batch_id).items()]
    return set(ledger.commit(files, a_batch_row(batch_id)).outcomes.values())


def test_a_driver_that_was_succeeded_while_it_slept_commits_nothing(root, driver):
    first = driver(1)
    assert commit(first, 0) == {"committed"}
    second = driver(2)

    with pytest.raises(FencedError, match=r"epoch 2; this job has 1"):
        commit(first, 1)

    assert {row["batch_id"] for row in rows_of(root, "messages")} == {0}
    assert commit(second, 1) == {"committed"}
    assert second.last_batch(QUERY) == a_batch_row(1)


def test_a_driver_that_is_overtaken_between_its_check_and_its_commit_is_refused(root, driver):
    first = driver(1)
    commit(first, 0)
    writer = first.writers["messages"]
    commit_really = writer._commit  # noqa: SLF001 (the instant between check and commit)

    def overtaken(table, *rest):
        writer._commit = commit_really  # noqa: SLF001
        driver(2)
        commit_really(table, *rest)

    writer._commit = overtaken  # noqa: SLF001

    with pytest.raises(FencedError):
        commit(first, 1)

    assert {row["batch_id"] for row in rows_of(root, "messages")} == {0}


def test_the_epoch_is_in_every_table_once(root, driver):
    driver(3)
    versions = {name: load_table(root / name).version() for name in tables_of(0)}

    driver(3)

    assert all(load_table(root / name).transaction_version(FENCE_ID) == 3 for name in tables_of(0))
    assert versions == {name: load_table(root / name).version() for name in tables_of(0)}


def test_an_earlier_driver_cannot_lower_the_fence(driver):
    driver(2)

    with pytest.raises(FencedError):
        driver(1)
