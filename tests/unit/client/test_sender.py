"""A sender whose producer raises: librdkafka with a broker of its own, inside this process."""

import threading

from confluent_kafka import KafkaError, KafkaException

from streaming.client._transport.sender import Sender
from streaming.client._wire import Record
from tests.fixtures.waiting import WAIT_S, wait_until


def raise_fatal(_error, _record):
    """Raise from a callback, as confluent-kafka does for a fatal error."""
    raise KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE, "fenced"))


def a_sender(errors):
    return Sender({"bootstrap.servers": "", "test.mock.num.brokers": "1"}, WAIT_S, errors.append)


def a_record():
    return Record(value=b"body", key=None, headers=[])


def test_after_a_fatal_error_the_reports_of_other_records_still_come():
    errors: list[str] = []
    reported = threading.Event()
    sender = a_sender(errors)

    sender.send("topic", a_record(), raise_fatal)
    wait_until(lambda: errors, lambda: "an error")
    sender.send("topic", a_record(), lambda _error, _record: reported.set())

    assert reported.wait(WAIT_S)
    assert "fenced" in errors
    sender.close()


def test_a_fatal_error_does_not_make_the_close_fail():
    errors: list[str] = []
    sender = a_sender(errors)
    for _ in range(100):
        sender.send("topic", a_record(), raise_fatal)

    sender.close()

    assert "fenced" in errors
