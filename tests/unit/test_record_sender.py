"""Many records are queued at once, and a failure of one is reported."""

import pytest

from streaming.record_sender import RecordSender, SendError

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "delivery.report.only.error": True}


def records(count):
    return [("topic", b"%d" % number, b"key", [("name", b"value")]) for number in range(count)]


def test_all_records_are_queued():
    sender = RecordSender(NOWHERE)

    assert sender.send_all(iter(records(1_000))) == 1_000
    assert len(sender.producer) >= 1_000  # librdkafka also counts errors of the connection
    sender.discard()


def test_a_full_queue_is_waited_for_and_a_failure_is_raised():
    sender = RecordSender({**NOWHERE, "queue.buffering.max.messages": 2, "message.timeout.ms": 200})

    sent = sender.send_all(iter(records(5)))

    assert sent == 5
    with pytest.raises(SendError, match="timed out"):
        sender.flush(60)


def test_a_record_that_is_too_large_is_refused():
    sender = RecordSender({**NOWHERE, "message.max.bytes": 1_000})

    with pytest.raises(SendError, match="too large"):
        sender.send_all([("topic", b"x" * 2_000, b"key", [])])
