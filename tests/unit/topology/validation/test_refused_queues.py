"""Exchanges and queues that RabbitMQ refuses, with its codes and texts."""

from typing import Any

import pytest

from topology.declarations import Exchange, Queue
from topology.refusals import Refusal
from topology.validation.refuse import refuse_exchange, refuse_queue

QUORUM: dict[str, Any] = {"x-queue-type": "quorum"}


def precondition(text):
    return Refusal(406, f"PRECONDITION_FAILED - {text}")


@pytest.mark.parametrize(
    "exchange",
    [
        Exchange("x"),
        Exchange("x", "topic", durable=False, auto_delete=True, internal=True),
        Exchange("x", "headers", arguments={"alternate-exchange": "ghost", "other": 1}),
        Exchange("ü" * 127, "fanout"),
    ],
)
def test_ordinary_exchanges_may_be_declared(exchange):
    assert refuse_exchange(exchange, "/") is None


@pytest.mark.parametrize(
    ("exchange", "refusal"),
    [
        (
            Exchange("x", "x-delayed-message"),
            Refusal(406, "PRECONDITION_FAILED - unknown exchange type 'x-delayed-message'"),
        ),
        (
            Exchange(""),
            Refusal(403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        ),
        (
            Exchange("amq.mine"),
            Refusal(
                403,
                "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
            ),
        ),
        (
            Exchange("x", arguments={"alternate-exchange": 5}),
            precondition(
                "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x'"
                " in vhost '<vhost>'"
            ),
        ),
        (Exchange("ü" * 128), precondition("exchange name has 256 bytes, more than 255")),
    ],
)
def test_other_exchanges_are_refused(exchange, refusal):
    assert refuse_exchange(exchange, "<vhost>") == refusal


@pytest.mark.parametrize(
    "queue",
    [
        Queue("q", durable=False, auto_delete=True, exclusive=True),
        Queue(
            "q",
            arguments={
                "x-message-ttl": 0,
                "x-expires": 1,
                "x-max-length": 0,
                "x-max-length-bytes": 0,
                "x-max-priority": 255,
                "x-overflow": "reject-publish-dlx",
                "x-dead-letter-exchange": "ghost",
                "x-dead-letter-routing-key": "",
                "x-queue-mode": "lazy",
                "x-single-active-consumer": True,
                "x-queue-type": "classic",
                "x-alternate-exchange": "ae",
                "x-never-heard-of": [1],
                "x-quorum-target-group-size": "x",
                "x-stream-filter-size-bytes": 0,
            },
        ),
        Queue(
            "q",
            arguments={
                **QUORUM,
                "x-delivery-limit": -1,
                "x-dead-letter-exchange": "",
                "x-dead-letter-strategy": "at-least-once",
                "x-overflow": "reject-publish-dlx",
                "x-message-ttl": 315_360_000_000,
                "x-quorum-initial-group-size": 3,
                "x-quorum-target-group-size": 0,
                "x-stream-filter-size-bytes": "x",
            },
        ),
    ],
)
def test_ordinary_queues_may_be_declared(queue):
    assert refuse_queue(queue, "/") is None


@pytest.mark.parametrize(
    ("arguments", "argument", "reason"),
    [
        ({"x-message-ttl": -1}, "x-message-ttl", ": {value_negative,-1}"),
        ({"x-message-ttl": "100"}, "x-message-ttl", ': "expected integer, got longstr"'),
        ({"x-message-ttl": True}, "x-message-ttl", ': "expected integer, got bool"'),
        ({"x-message-ttl": 315_360_000_001}, "x-message-ttl", ": {value_too_large,315360000001}"),
        ({"x-expires": 0}, "x-expires", ": {value_zero,0}"),
        ({"x-expires": 315_360_000_001}, "x-expires", ": {value_too_large,315360000001}"),
        ({"x-max-length": -1}, "x-max-length", ": {value_negative,-1}"),
        ({"x-max-length-bytes": 1.0}, "x-max-length-bytes", ': "expected integer, got double"'),
        ({"x-max-priority": 256}, "x-max-priority", ": {max_value_exceeded,256}"),
        ({"x-max-priority": -1}, "x-max-priority", ": {value_negative,-1}"),
        ({"x-overflow": "drop-tail"}, "x-overflow", ": invalid_overflow"),
        ({"x-overflow": 1}, "x-overflow", ": {unacceptable_type,signedint}"),
        (
            {"x-dead-letter-routing-key": "k"},
            "x-dead-letter-routing-key",
            ": routing_key_but_no_dlx_defined",
        ),
        (
            {"x-dead-letter-routing-key": 1},
            "x-dead-letter-routing-key",
            ": {unacceptable_type,signedint}",
        ),
        ({"x-queue-mode": "eager"}, "x-queue-mode", ": \"unsupported queue mode 'eager'\""),
        ({"x-queue-version": 3}, "x-queue-version", ": \"unsupported queue version '3'\""),
        ({"x-queue-version": -1}, "x-queue-version", ": {value_negative,-1}"),
        ({"x-queue-version": "2"}, "x-queue-version", ': "expected integer, got longstr"'),
        ({"x-queue-leader-locator": "x"}, "x-queue-leader-locator", ": invalid_queue_locator_arg"),
        (
            {"x-single-active-consumer": "yes"},
            "x-single-active-consumer",
            ": {unacceptable_type,longstr}",
        ),
        (
            {"x-queue-type": "stream", "x-message-ttl": -1},
            "x-queue-type",
            ": \"unsupported queue type 'stream'\"",
        ),
        ({"x-queue-type": 1}, "x-queue-type", ": {unacceptable_type,signedint}"),
        (
            {"x-dead-letter-strategy": "at-least-once"},
            "x-dead-letter-strategy",
            " of queue type rabbit_classic_queue",
        ),
        ({"x-delivery-limit": 1}, "x-delivery-limit", " of queue type rabbit_classic_queue"),
        ({"x-max-age": "1D"}, "x-max-age", " of queue type rabbit_classic_queue"),
        ({**QUORUM, "x-max-priority": 1}, "x-max-priority", " of queue type rabbit_quorum_queue"),
        (
            {**QUORUM, "x-dead-letter-strategy": "sometimes"},
            "x-dead-letter-strategy",
            ": invalid_dlx_strategy",
        ),
        (
            {**QUORUM, "x-delivery-limit": "3"},
            "x-delivery-limit",
            ': "expected integer, got longstr"',
        ),
    ],
)
def test_invalid_arguments_of_queues_are_refused(arguments, argument, reason):
    """R-POL-11."""
    assert refuse_queue(Queue("q", arguments=arguments), "<vhost>") == precondition(
        f"invalid arg '{argument}' for queue 'q' in vhost '<vhost>'{reason}"
    )


@pytest.mark.parametrize(
    ("argument", "value", "kind"),
    [("x-dead-letter-exchange", 1, "signedint"), ("x-alternate-exchange", None, "void")],
)
def test_exchange_names_in_queue_arguments_must_be_text(argument, value, kind):
    assert refuse_queue(Queue("q", arguments={argument: value}), "/") == precondition(
        f"invalid type '{kind}' for arg '{argument}' in queue 'q' in vhost '/'"
    )


def test_3_10_refuses_a_negative_delivery_limit():
    queue = Queue("q", arguments={**QUORUM, "x-delivery-limit": -1})

    assert refuse_queue(queue, "/", "3.10") == precondition(
        "invalid arg 'x-delivery-limit' for queue 'q' in vhost '/': {value_negative,-1}"
    )
    assert refuse_queue(Queue("q"), "/", "3.10") is None


@pytest.mark.parametrize(
    ("queue", "refusal"),
    [
        (
            Queue("amq.gen-1"),
            Refusal(
                403, "ACCESS_REFUSED - queue name 'amq.gen-1' contains reserved prefix 'amq.*'"
            ),
        ),
        (
            Queue(""),
            precondition("a queue needs a name: server-named queues are not supported"),
        ),
        (Queue("q" * 256), precondition("queue name has 256 bytes, more than 255")),
        (
            Queue("q", auto_delete=True, arguments=QUORUM),
            precondition("invalid property 'auto-delete' for queue 'q' in vhost '/'"),
        ),
        (
            Queue("q", exclusive=True, arguments=QUORUM),
            precondition("invalid property 'exclusive-owner' for queue 'q' in vhost '/'"),
        ),
        (
            Queue("q", durable=False, arguments=QUORUM),
            precondition("invalid property 'non-durable' for queue 'q' in vhost '/'"),
        ),
    ],
)
def test_other_queues_are_refused(queue, refusal):
    assert refuse_queue(queue, "/") == refusal
