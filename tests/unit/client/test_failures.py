"""Whatever a caller does wrong is a ClientError that names the argument."""

import pytest

from streaming.client import Address, ClientError, ConfirmTimeoutError, Connection, consumer, run
from streaming.client._transport.confirms import Confirm
from streaming.client._wire import publish_record

GOOD = {
    "body": b"x",
    "vhost": "/",
    "channel": "c",
    "exchange": "",
    "routing_key": "q",
    "properties": None,
    "headers": None,
    "flags": "",
    "kafka_headers": (),
    "record_key": None,
}


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"body": 5}, "body"),
        ({"exchange": None}, "exchange"),
        ({"routing_key": 5}, "routing key"),
        ({"properties": {"nosuch": 1}}, "nosuch"),
        ({"properties": {"priority": "high"}}, "priority"),
        ({"properties": "text"}, "published"),
        ({"properties": {"message_id": 1j}}, "published"),
        ({"headers": 5}, "published"),
        ({"headers": {"a": 1j}}, "published"),
        ({"kafka_headers": 5}, "kafka_headers"),
        ({"kafka_headers": [("a",)]}, "kafka_headers"),
        ({"kafka_headers": [(1, b"")]}, "kafka_headers"),
        ({"kafka_headers": [("dlx-op", b"")]}, "reserved"),
    ],
    ids=str,
)
def test_a_publish_that_is_not_valid(option, words):
    with pytest.raises(ClientError, match=words):
        publish_record(**{**GOOD, **option})


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((5,), {}, "address"),
        (("localhost:1",), {"timeout_s": -1}, "timeout_s"),
        (("localhost:1",), {"kafka": {"nosuch.property": "1"}}, "nosuch"),
        ((Address(kafka={"nosuch.property": "1"}),), {}, "nosuch"),
        ((Address(kafka={"acks": "0"}),), {}, "acks"),
        ((Address(),), {"user": "guest"}, "user"),
    ],
    ids=str,
)
def test_a_connection_that_cannot_be_made(arguments, options, words):
    with pytest.raises(ClientError, match=words):
        Connection(*arguments, **options)


def test_a_configuration_that_is_missing_or_not_valid(tmp_path):
    file = tmp_path / "dlx.toml"
    with pytest.raises(ClientError, match=r"dlx\.toml"):
        Connection.from_config(file)
    file.write_text("[kafka]\nnosuch = 1\n", "utf-8")
    with pytest.raises(ClientError, match="nosuch"):
        Connection.from_config(file)


@pytest.mark.parametrize(
    "option", [{"concurrency": 0}, {"prefetch": -1}, {"retries": "2"}], ids=str
)
def test_a_consumer_that_is_not_valid(option):
    with pytest.raises(ClientError, match=next(iter(option))):
        consumer("queue", **option)


def test_nothing_to_run():
    with pytest.raises(ClientError, match="decorator"):
        run()


def test_a_confirm_that_does_not_come_in_time_is_both_kinds_of_error():
    confirm = Confirm(in_transaction=False)

    with pytest.raises(ConfirmTimeoutError) as caught:
        confirm.result(0)
    assert isinstance(caught.value, ClientError)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(ConfirmTimeoutError):
        confirm.exception(0)
    confirm.finish(None)
    assert confirm.exception(0) is None
