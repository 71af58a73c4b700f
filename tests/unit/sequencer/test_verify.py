"""Does a verification find where two folds of a log part, and nothing else?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streaming.amqp.entries import Ask
from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.sequence.log_fold import OtherTermsError, Terms
from streaming.protocol.log_records import (
    Digest,
    LogHeader,
    LogKind,
    encode,
    read_digest,
    read_header,
)
from streaming.sequencer.log_reader import RawRecord
from streaming.sequencer.verify import RangeFold, Verdict, verify
from tests.log_port import CONFIG, TERMS, LogPort
from tests.unit.sequencer.test_log_vhost import a_channel, a_leader, publish
from topology.declarations import Queue

CUTS = (13, 21)
"""A snapshot is taken after so many publishes."""

Snapshots = list[tuple[int, dict[str, bytes]]]


@pytest.fixture(autouse=True)
def _short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.broker.sequence.digest.SEGMENT", 10)


def play(port: LogPort, queue: str = "q") -> Snapshots:
    """Write a log with digests; return the snapshots."""
    vhost = a_leader(port)
    ear = a_channel(vhost, port)
    vhost.submit(Ask(Actor("guest", "c1"), commands.DeclareQueue(queue=Queue(queue), channel="c1")))
    snapshots: Snapshots = []
    for number in range(1, 33):
        publish(vhost, ear, b"body %d" % number, number)
        port.acknowledge(vhost)
        if number in CUTS:
            taken = vhost.snapshot()
            assert taken is not None
            snapshots.append((taken.next_offset, taken.entries))
    return snapshots


def a_fold(
    entries: dict[str, bytes] | None = None,
    config: ShardConfig = CONFIG,
    terms: Terms | None = TERMS,
) -> RangeFold:
    def fetch(_offset: int) -> Any:
        raise AssertionError("no message is asked for")

    return RangeFold(config, fetch, entries, terms=terms)


def verified(port: LogPort, fold: RangeFold, other: RangeFold | None = None) -> Verdict:
    """Verify in portions of three records."""
    records = port.records[fold.fold.next_offset :]
    return verify(fold, (records[at : at + 3] for at in range(0, len(records), 3)), other)


def digests(port: LogPort) -> list[RawRecord]:
    return [raw for raw in port.records if read_header(raw.header).kind == LogKind.DIGEST]


def test_a_log_that_is_folded_again_has_the_digests_that_its_front_wrote():
    port = LogPort()
    play(port)

    found = verified(port, a_fold())

    written = [read_digest(raw.value or b"").boundary for raw in digests(port)]
    assert written == [10, 20, 30]
    assert found == Verdict(0, len(port.records), 3, 30)


def test_a_digest_that_was_tampered_with_is_found_at_its_boundary():
    port = LogPort()
    play(port)
    raw = digests(port)[2]
    digest = read_digest(raw.value or b"")
    port.records[raw.offset] = raw._replace(value=encode(Digest(digest.boundary, b"wrong")))

    found = verified(port, a_fold())

    assert found.parting is not None
    assert (found.parting.first, found.parting.last) == (20, 30)
    assert (found.parting.here, found.parting.there) == (digest.digest.hex(), b"wrong".hex())
    assert (found.digests, found.equal_to, found.end) == (2, 20, raw.offset + 1)
    assert "between offset 20 and 30" in str(found.parting)


def test_a_record_that_was_tampered_with_is_found_at_the_end_of_its_segment():
    port = LogPort()
    play(port)
    raw = port.records[14]
    header = read_header(raw.header)
    assert header.kind == LogKind.PUBLISH
    lost = LogHeader(1, header.epoch, header.kind, header.user, header.channel, "", "nowhere")
    port.records[14] = raw._replace(header=encode(lost))

    found = verified(port, a_fold())

    assert found.parting is not None
    assert (found.parting.first, found.parting.last) == (10, 20)


def test_the_folds_from_snapshots_are_the_one_from_the_start():
    port = LogPort()
    (first, early), (_, late) = play(port)

    whole = verified(port, a_fold(), a_fold(late))
    part = verified(port, a_fold(early), a_fold(late))

    assert whole == Verdict(0, len(port.records), 3, 30)
    assert part == Verdict(first, len(port.records), 2, 30)


def test_a_snapshot_of_another_log_is_not_the_state_at_its_offset():
    port = LogPort()
    play(port)
    _, (offset, entries) = play(LogPort(), queue="other")

    found = verified(port, a_fold(), a_fold(entries))

    assert found.parting is not None
    assert (found.parting.first, found.parting.last, found.end) == (0, offset, offset)
    assert f"differ before the record at offset {offset}" in str(found.parting)


def test_a_state_at_the_end_of_what_is_folded_is_compared():
    port = LogPort()
    _, (offset, entries) = play(port)
    _, (_, others) = play(LogPort(), queue="other")
    del port.records[offset:]

    assert verified(port, a_fold(), a_fold(entries)).parting is None
    found = verified(port, a_fold(), a_fold(others))

    assert found.parting is not None
    assert (found.parting.first, found.parting.last, found.end) == (0, offset, offset)


def test_two_folds_part_at_the_first_record_that_they_take_otherwise():
    port = LogPort()
    play(port)
    stranger = a_fold(config=msgspec.structs.replace(CONFIG, administrators=()), terms=None)

    found = verified(port, a_fold(), stranger)

    declared = next(raw for raw in port.records if b"declare_queue" in (raw.value or b""))
    assert found.parting is not None
    assert (found.parting.first, found.parting.last) == (declared.offset, declared.offset)
    assert f"part at the record at offset {declared.offset}" in str(found.parting)


def test_a_log_of_another_version_is_folded_only_if_asked_for():
    port = LogPort()
    play(port)
    newer = Terms(TERMS.core_version + 1, TERMS.rules)

    with pytest.raises(OtherTermsError, match="offset 0 on"):
        verified(port, a_fold(terms=newer))
    assert verified(port, a_fold(terms=None)).equal_to == 30


def test_what_another_program_wrote_changes_nothing():
    port = LogPort()
    play(port)
    port.records.append(RawRecord(len(port.records), port.now_ms, b"\xff", None, b"x"))

    assert verified(port, a_fold(), a_fold()).parting is None
