"""Redeclaring existing objects."""

from typing import Any

import pytest

from topology.declarations import Exchange, Queue
from topology.refusals import Refusal, exclusive_queue
from topology.validation.refuse import inequivalent_exchange, inequivalent_queue

TTL: dict[str, Any] = {"x-message-ttl": 100}


def inequivalent(text):
    return Refusal(406, f"PRECONDITION_FAILED - inequivalent arg {text}")


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        (Exchange("x"), Exchange("x", arguments={"unknown": 1}), None),
        (Exchange("amq.topic", "topic"), Exchange("amq.topic", "topic"), None),
        (
            Exchange("x", arguments={"alternate-exchange": "a"}),
            Exchange("x", arguments={"alternate-exchange": "a"}),
            None,
        ),
        (
            Exchange("x", "direct"),
            Exchange("x", "topic", durable=False),
            inequivalent(
                "'type' for exchange 'x' in vhost '/': received 'topic' but current is 'direct'"
            ),
        ),
        (
            Exchange("x"),
            Exchange("x", durable=False),
            inequivalent(
                "'durable' for exchange 'x' in vhost '/': received 'false' but current is 'true'"
            ),
        ),
        (
            Exchange("x"),
            Exchange("x", auto_delete=True),
            inequivalent(
                "'auto_delete' for exchange 'x' in vhost '/':"
                " received 'true' but current is 'false'"
            ),
        ),
        (
            Exchange("x"),
            Exchange("x", internal=True),
            inequivalent(
                "'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'"
            ),
        ),
        (
            Exchange("x", arguments={"alternate-exchange": "a"}),
            Exchange("x"),
            inequivalent(
                "'alternate-exchange' for exchange 'x' in vhost '/':"
                " received none but current is the value 'a' of type 'longstr'"
            ),
        ),
        (
            Exchange("x"),
            Exchange("x", "x-random"),
            Refusal(406, "PRECONDITION_FAILED - unknown exchange type 'x-random'"),
        ),
        (
            Exchange("x"),
            Exchange("x", ""),
            Refusal(406, "PRECONDITION_FAILED - invalid exchange type ''"),
        ),
        (
            Exchange(""),
            Exchange(""),
            Refusal(403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        ),
    ],
)
def test_an_exchange_can_be_redeclared_only_equivalently(old, new, refusal):
    assert inequivalent_exchange(old, new, "/") == refusal


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        (Queue("q", arguments=TTL), Queue("q", arguments=TTL), None),
        (Queue("q"), Queue("q", arguments={"unknown": 1, "x-delivery-limit": 3}), None),
        (Queue("q"), Queue("q", arguments={"x-queue-type": "classic"}), None),
        (Queue("q", arguments={"x-queue-type": "classic"}), Queue("q"), None),
        (
            Queue("q"),
            Queue("q", arguments={"x-queue-type": "quorum"}),
            inequivalent(
                "'x-queue-type' for queue 'q' in vhost '/':"
                " received 'quorum' but current is 'classic'"
            ),
        ),
        (
            Queue("q"),
            Queue("q", durable=False),
            inequivalent(
                "'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"
            ),
        ),
        (
            Queue("q", auto_delete=True),
            Queue("q"),
            inequivalent(
                "'auto_delete' for queue 'q' in vhost '/': received 'false' but current is 'true'"
            ),
        ),
        (
            Queue("q", arguments=TTL),
            Queue("q", arguments={"x-message-ttl": 200}),
            inequivalent(
                "'x-message-ttl' for queue 'q' in vhost '/': received '200' but current is '100'"
            ),
        ),
        (
            Queue("q", arguments=TTL),
            Queue("q", arguments={"x-message-ttl": 100.0}),
            inequivalent(
                "'x-message-ttl' for queue 'q' in vhost '/': received '100.0' but current is '100'"
            ),
        ),
        (
            Queue("q", arguments=TTL),
            Queue("q", arguments={"x-message-ttl": "100"}),
            inequivalent(
                "'x-message-ttl' for queue 'q' in vhost '/': received '100' but current is '100'"
            ),
        ),
        (
            Queue("q"),
            Queue("q", arguments={"x-max-length": None}),
            inequivalent(
                "'x-max-length' for queue 'q' in vhost '/': received the value 'undefined' of type"
                " 'void' but current is none"
            ),
        ),
        *(
            (
                Queue("q"),
                Queue("q", arguments={"x-max-length": value}),
                inequivalent(
                    f"'x-max-length' for queue 'q' in vhost '/': received the value '{shown}' of"
                    " type 'binary' but current is none"
                ),
            )
            for value, shown in ((b"a", "a"), (b"\xc3\xa9", "é"), (b"\xff", "ÿ"))
        ),
        (Queue("q"), Queue("q", exclusive=True), exclusive_queue("q", "/")),
    ],
)
def test_a_queue_can_be_redeclared_only_equivalently(old, new, refusal):
    """R-DEF-4."""
    assert inequivalent_queue(old, new, "/") == refusal


@pytest.mark.parametrize(
    ("queue_type", "first", "second"),
    [
        ("classic", "x-message-ttl", "x-dead-letter-exchange"),
        ("quorum", "x-dead-letter-exchange", "x-message-ttl"),
    ],
)
def test_two_arguments_that_differ_are_compared_in_the_order_of_their_queue_type(
    queue_type, first, second
):
    arguments: dict[str, Any] = {"x-queue-type": queue_type}
    values: dict[str, Any] = {"x-message-ttl": 5, "x-dead-letter-exchange": "dlx"}
    old = Queue("q", arguments={**arguments, second: values[second]})
    new = Queue("q", arguments={**arguments, first: values[first]})

    refusal = inequivalent_queue(old, new, "/")

    assert refusal is not None
    assert f"inequivalent arg '{first}'" in refusal.text


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            {},
            {"x-queue-type": "quorum"},
            "the value 'quorum' of type 'longstr' but current is none",
        ),
        (
            {"x-queue-type": "quorum"},
            {},
            "none but current is the value 'quorum' of type 'longstr'",
        ),
        (
            {"x-queue-type": "quorum"},
            {"x-queue-type": "classic"},
            "'classic' but current is 'quorum'",
        ),
    ],
)
def test_3_10_does_not_know_the_type_of_a_queue_that_does_not_say_it(old, new, text):
    refusal = inequivalent_queue(Queue("q", arguments=old), Queue("q", arguments=new), "/", "3.10")

    assert refusal == inequivalent(f"'x-queue-type' for queue 'q' in vhost '/': received {text}")


def test_an_unknown_exchange_type_closes_the_connection_in_3_10_only():
    new = Exchange("x", "x-random")
    refusal = Refusal(503, "COMMAND_INVALID - unknown exchange type 'x-random'")

    assert inequivalent_exchange(Exchange("x"), new, "/", "3.10") == refusal
    assert refusal.is_of_connection
