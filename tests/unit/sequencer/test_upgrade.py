"""A front of a newer broker core: what the order of an upgrade is for."""

import pytest

from streaming.broker.sequence.log_fold import OtherTermsError
from streaming.config.shards import terms_of
from tests.log_port import CONFIG, LogPort
from tests.unit.sequencer.test_log_vhost import a_channel, a_leader, publish
from tests.unit.sequencer.test_verify import a_fold


def old_life(port):
    """A front of the old core writes a log, and leaves a snapshot when it stops."""
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    for number in range(1, 6):
        publish(vhost, ear, b"old", number)
    port.acknowledge(vhost)
    taken = vhost.snapshot()
    assert taken is not None
    return taken.next_offset, taken.entries


@pytest.fixture
def upgraded(monkeypatch):
    """Make this program one with the next core."""

    def upgrade():
        core = terms_of(CONFIG).core_version
        monkeypatch.setattr("streaming.config.shards.CORE_VERSION", core + 1)

    return upgrade


def test_in_the_order_of_an_upgrade_nothing_is_refused(upgraded):
    port = LogPort()
    _, entries = old_life(port)
    job = a_fold(terms=terms_of(CONFIG))  # the old job reads the log to its end
    for raw in port.records:
        job.take(raw)
    job.fold.finish()
    at_rest = job.entries

    upgraded()
    new_job = a_fold(at_rest, terms=terms_of(CONFIG))
    front = port.open(entries)
    front.acknowledged(port.write())
    ear = a_channel(front, port)
    publish(front, ear, b"new")
    port.acknowledge(front)

    for raw in port.records[new_job.fold.next_offset :]:
        new_job.take(raw)
    assert ear.heard == [("confirm", len(port.records) - 1, True)]
    assert new_job.fold.in_short() == front.fold.in_short()
    assert front.fold.shard.state.resident()[0] == 6


def test_a_new_front_refuses_the_log_of_the_old_one_without_the_snapshot_at_its_end(upgraded):
    port = LogPort()
    old_life(port)

    upgraded()

    with pytest.raises(OtherTermsError, match=r"core \d+; this program has \d+\. Let the version"):
        port.open()


def test_a_new_job_refuses_what_the_old_one_has_not_read(upgraded):
    port = LogPort()
    old_life(port)
    half = a_fold(terms=terms_of(CONFIG))
    for raw in port.records[:4]:
        half.take(raw)
    half.fold.finish()

    upgraded()
    job = a_fold(half.entries, terms=terms_of(CONFIG))

    with pytest.raises(OtherTermsError, match="from offset 4 on") as caught:
        job.take(port.records[4])
    assert "Let the version that wrote them fold them first" in str(caught.value)
    assert job.fold.next_offset == 4


def test_an_old_job_and_an_old_standby_stop_where_a_new_front_begins(upgraded):
    port = LogPort()
    _, entries = old_life(port)
    job = a_fold(terms=terms_of(CONFIG))
    standby = port.open(leads=False)
    upgraded()
    front = port.open(entries)
    front.acknowledged(port.write())
    begun = len(port.records) - 1

    for raw in port.records[:begun]:
        job.take(raw)
    with pytest.raises(OtherTermsError, match="Upgrade this program"):
        job.take(port.records[begun])
    with pytest.raises(OtherTermsError, match=f"from offset {begun} on"):
        standby.follow(port.records[standby.position :])

    assert job.fold.next_offset == standby.fold.next_offset == begun
