"""Of several drivers of one checkpoint in shared storage, only the holder of the lease commits."""

from contextlib import suppress

import msgspec
import pytest

from streaming.pipeline.checkpoint.errors import CheckpointInUseError, LeaseLostError
from streaming.pipeline.checkpoint.lease import (
    FILE,
    CheckpointLease,
    Held,
    lease_file,
    read_lease,
)
from streaming.storage.json_file import DamagedFileError
from tests.fixtures.object_store import object_store, shared_place
from tests.fixtures.waiting import wait_until

__all__ = ["object_store", "shared_place"]

LONG_MS = 600_000
RENEWED_MS = 6_000
"""Renewed each 1.5 s; a busy machine may be late by three times that."""

SHORT_MS = 400
"""Of a lease that runs out."""


@pytest.fixture(params=["object", "mount"])
def checkpoint(request, tmp_path):
    """The folder of a checkpoint in an object store, and on a shared mount."""
    if request.param == "mount":
        return tmp_path / "checkpoint"
    place = request.getfixturevalue("shared_place")
    return place / "checkpoint"


@pytest.fixture
def lease_of(checkpoint):
    """Makes leases of the checkpoint, and releases them at the end."""
    made = []

    def make(duration_ms=LONG_MS):
        made.append(CheckpointLease(checkpoint, duration_ms))
        return made[-1]

    yield make
    for each in made:
        with suppress(OSError):
            each.release()


def known(checkpoint):
    held = read_lease(checkpoint)
    assert held is not None
    return held


def change(checkpoint, **fields):
    """Write other fields into the lease behind its holder's back."""
    store = lease_file(checkpoint)
    found = store.read()
    assert found is not None
    content, version = found
    held = msgspec.json.decode(content, type=Held)
    assert store.replace(msgspec.json.encode(msgspec.structs.replace(held, **fields)), version)


def test_a_lease_is_taken_renewed_and_released(checkpoint, lease_of):
    lease = lease_of(RENEWED_MS)

    lease.acquire()
    wait_until(lambda: known(checkpoint).renewals > 0)
    lease.check()
    epoch, held = lease.epoch, known(checkpoint)
    lease.release()

    assert (held.held, held.epoch, known(checkpoint).held) == (True, epoch, False)


def test_a_released_lease_is_taken_at_once_with_a_higher_epoch(lease_of):
    first, second = lease_of(), lease_of()
    first.acquire()
    epoch = first.epoch
    first.release()

    second.acquire()

    second.check()
    assert second.epoch > epoch


def test_a_lease_that_is_renewed_is_refused_with_the_name_of_its_holder(lease_of):
    first, second = lease_of(RENEWED_MS), lease_of()
    first.acquire()

    with pytest.raises(CheckpointInUseError, match=r"process \d+ on .* renews its lease"):
        second.acquire()

    first.check()


def test_a_silent_holder_is_succeeded_and_may_not_commit(lease_of):
    first, second = lease_of(SHORT_MS), lease_of()
    first.acquire()
    first.stop_renewing()

    second.acquire()

    second.check()
    with pytest.raises(LeaseLostError, match=r"it was not renewed for 0\.4 s"):
        first.check()


def test_a_holder_that_wakes_up_finds_the_lease_taken(checkpoint, lease_of):
    first, second = lease_of(), lease_of()
    first.acquire()
    first.stop_renewing()
    change(checkpoint, held=False)
    second.acquire()

    first.renew()

    with pytest.raises(LeaseLostError, match="another job has taken it"):
        first.check()
    first.release()
    second.check()


def test_a_renewal_whose_answer_was_lost_is_our_own(checkpoint, lease_of):
    lease = lease_of()
    lease.acquire()
    lease.stop_renewing()
    change(checkpoint, renewals=7)

    lease.renew()

    lease.check()


def test_a_damaged_lease_is_refused_with_its_place(checkpoint, lease_of):
    checkpoint.mkdir()
    (checkpoint / f"{FILE}.1").write_bytes(b"{")

    with pytest.raises(DamagedFileError, match=r"lease.json.1 is damaged .*delete the file"):
        lease_of().acquire()


def test_a_lease_has_a_holder_and_an_age_for_people():
    lease = Held(1, held=True, host="a", pid=7, duration_ms=5, renewed_ms=0)

    assert (lease.holder, lease.age_ms > 0) == ("process 7 on a", True)
