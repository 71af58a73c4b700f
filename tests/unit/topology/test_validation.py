"""What RabbitMQ refuses, with its codes and texts."""

from decimal import Decimal
from typing import Any

import pytest

from topology.declarations import Binding, Exchange, Policy, Queue
from topology.errors import Refusal
from topology.refusals import (
    exchange_in_use,
    exclusive_queue,
    internal_exchange,
    no_exchange,
    no_queue,
    queue_in_use,
    queue_not_empty,
    refuse_exchange_deletion,
)
from topology.validation import refuse_binding, refuse_exchange, refuse_policy, refuse_queue
from topology.values import Timestamp

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
            Refusal(503, "COMMAND_INVALID - unknown exchange type 'x-delayed-message'"),
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
        (Exchange("ü" * 128), precondition("exchange name of 256 bytes is longer than 255")),
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
            },
        ),
    ],
)
def test_ordinary_queues_may_be_declared(queue):
    assert refuse_queue(queue, "/") is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"x-message-ttl": -1},
            "invalid arg 'x-message-ttl' for queue 'q' in vhost '<vhost>': {value_negative,-1}",
        ),
        (
            {"x-message-ttl": "100"},
            (
                "invalid arg 'x-message-ttl' for queue 'q' in vhost '<vhost>':"
                ' "expected integer, got longstr"'
            ),
        ),
        (
            {"x-message-ttl": True},
            (
                "invalid arg 'x-message-ttl' for queue 'q' in vhost '<vhost>':"
                ' "expected integer, got bool"'
            ),
        ),
        (
            {"x-message-ttl": 315_360_000_001},
            (
                "invalid arg 'x-message-ttl' for queue 'q' in vhost '<vhost>':"
                " {value_too_large,315360000001}"
            ),
        ),
        (
            {"x-expires": 0},
            "invalid arg 'x-expires' for queue 'q' in vhost '<vhost>': {value_zero,0}",
        ),
        (
            {"x-expires": 315_360_000_001},
            (
                "invalid arg 'x-expires' for queue 'q' in vhost '<vhost>':"
                " {value_too_large,315360000001}"
            ),
        ),
        (
            {"x-max-length": -1},
            "invalid arg 'x-max-length' for queue 'q' in vhost '<vhost>': {value_negative,-1}",
        ),
        (
            {"x-max-length-bytes": 1.0},
            (
                "invalid arg 'x-max-length-bytes' for queue 'q' in vhost '<vhost>':"
                ' "expected integer, got double"'
            ),
        ),
        (
            {"x-max-priority": 256},
            (
                "invalid arg 'x-max-priority' for queue 'q' in vhost '<vhost>':"
                " {max_value_exceeded,256}"
            ),
        ),
        (
            {"x-max-priority": -1},
            "invalid arg 'x-max-priority' for queue 'q' in vhost '<vhost>': {value_negative,-1}",
        ),
        (
            {"x-overflow": "drop-tail"},
            "invalid arg 'x-overflow' for queue 'q' in vhost '<vhost>': invalid_overflow",
        ),
        (
            {"x-overflow": 1},
            (
                "invalid arg 'x-overflow' for queue 'q' in vhost '<vhost>':"
                " {unacceptable_type,signedint}"
            ),
        ),
        (
            {"x-dead-letter-routing-key": "k"},
            (
                "invalid arg 'x-dead-letter-routing-key' for queue 'q' in vhost '<vhost>':"
                " routing_key_but_no_dlx_defined"
            ),
        ),
        (
            {"x-dead-letter-routing-key": 1},
            (
                "invalid arg 'x-dead-letter-routing-key' for queue 'q' in vhost '<vhost>':"
                " {unacceptable_type,signedint}"
            ),
        ),
        (
            {"x-dead-letter-exchange": 1},
            (
                "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q'"
                " in vhost '<vhost>'"
            ),
        ),
        (
            {"x-alternate-exchange": None},
            "invalid type 'void' for arg 'x-alternate-exchange' in queue 'q' in vhost '<vhost>'",
        ),
        (
            {"x-queue-mode": "eager"},
            (
                "invalid arg 'x-queue-mode' for queue 'q' in vhost '<vhost>':"
                " \"unsupported queue mode 'eager'\""
            ),
        ),
        (
            {"x-single-active-consumer": "yes"},
            (
                "invalid arg 'x-single-active-consumer' for queue 'q' in vhost '<vhost>':"
                " {unacceptable_type,longstr}"
            ),
        ),
        (
            {"x-queue-type": "stream", "x-message-ttl": -1},
            (
                "invalid arg 'x-queue-type' for queue 'q' in vhost '<vhost>':"
                " \"unsupported queue type 'stream'\""
            ),
        ),
        (
            {"x-queue-type": 1},
            (
                "invalid arg 'x-queue-type' for queue 'q' in vhost '<vhost>':"
                " {unacceptable_type,signedint}"
            ),
        ),
        (
            {"x-dead-letter-strategy": "at-least-once"},
            (
                "invalid arg 'x-dead-letter-strategy' for queue 'q' in vhost '<vhost>'"
                " of queue type rabbit_classic_queue"
            ),
        ),
        (
            {"x-delivery-limit": 1},
            (
                "invalid arg 'x-delivery-limit' for queue 'q' in vhost '<vhost>'"
                " of queue type rabbit_classic_queue"
            ),
        ),
        (
            {"x-max-age": "1D"},
            (
                "invalid arg 'x-max-age' for queue 'q' in vhost '<vhost>'"
                " of queue type rabbit_classic_queue"
            ),
        ),
        (
            {**QUORUM, "x-max-priority": 1},
            (
                "invalid arg 'x-max-priority' for queue 'q' in vhost '<vhost>'"
                " of queue type rabbit_quorum_queue"
            ),
        ),
        (
            {**QUORUM, "x-dead-letter-strategy": "sometimes"},
            (
                "invalid arg 'x-dead-letter-strategy' for queue 'q' in vhost '<vhost>':"
                " invalid_dlx_strategy"
            ),
        ),
        (
            {**QUORUM, "x-delivery-limit": "3"},
            (
                "invalid arg 'x-delivery-limit' for queue 'q' in vhost '<vhost>':"
                ' "expected integer, got longstr"'
            ),
        ),
    ],
)
def test_invalid_arguments_of_queues_are_refused(arguments, text):
    """R-POL-11."""
    assert refuse_queue(Queue("q", arguments=arguments), "<vhost>") == precondition(text)


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
        (Queue("q" * 256), precondition("queue name of 256 bytes is longer than 255")),
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


@pytest.mark.parametrize(
    ("x_match", "text"),
    [
        (
            "some",
            'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
        ),
        (
            'größe "1"\\',
            (
                'Invalid x-match field value <<"größe \\"1\\"\\\\"/utf8>>;'
                " expected all, any, all-with-x, or any-with-x"
            ),
        ),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
        (True, "Invalid x-match field type bool (value true); expected longstr"),
        (False, "Invalid x-match field type bool (value false); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
        (b"all", "Invalid x-match field type binary (value <<97,108,108>>); expected longstr"),
        (Timestamp(7), "Invalid x-match field type timestamp (value 7); expected longstr"),
        (Decimal("1.5"), "Invalid x-match field type decimal (value 1.5); expected longstr"),
        (
            [1, "a"],
            (
                'Invalid x-match field type array (value [{signedint,1},{longstr,<<"a">>}]);'
                " expected longstr"
            ),
        ),
        (
            {"b": 1.5, "a": None},
            (
                "Invalid x-match field type table"
                ' (value [{<<"a">>,void,undefined},{<<"b">>,double,1.5}]); expected longstr'
            ),
        ),
    ],
)
def test_an_invalid_x_match_is_refused_by_headers_exchanges_only(x_match, text):
    """R-HDR-8."""
    binding = Binding("h", "q", arguments={"x-match": x_match})

    assert refuse_binding(binding, "/", "headers") == precondition(text)
    assert refuse_binding(binding, "/") == precondition(text)
    assert refuse_binding(binding, "/", "topic") is None


def test_too_many_hashes_are_refused_by_topic_exchanges_only():
    binding = Binding("t", "q", routing_key=".".join("#" * 11))
    refusal = precondition("binding key '#.#.#.#.#.#.#.#.#.#.#' has 11 '#', more than 10")

    assert refuse_binding(binding, "/", "topic") == refusal
    assert refuse_binding(binding, "/") == refusal
    assert refuse_binding(binding, "/", "direct") is None
    assert refuse_binding(Binding("t", "q", routing_key=".".join("#" * 10)), "/") is None


@pytest.mark.parametrize(
    ("binding", "refusal"),
    [
        (Binding("x", "q", arguments={"x-match": "any"}), None),
        (Binding("x", "y", "exchange", "k"), None),
        (
            Binding("", "q"),
            Refusal(403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        ),
        (
            Binding("x", "", "exchange"),
            Refusal(403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        ),
        (
            Binding("x", "q", routing_key="k" * 256),
            precondition("routing key of 256 bytes is longer than 255"),
        ),
    ],
)
def test_the_default_exchange_cannot_be_bound_and_keys_are_short(binding, refusal):
    assert refuse_binding(binding, "/") == refusal


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {"max-length": 0, "message-ttl": 0, "expires": 1, "overflow": "reject-publish"},
        {"delivery-limit": -1, "dead-letter-strategy": "at-least-once"},
        {"dead-letter-exchange": "", "dead-letter-routing-key": "", "alternate-exchange": ""},
        {"queue-alternate-exchange": "x", "ha-mode": "all", "federation-upstream-set": "all"},
    ],
)
def test_ordinary_policies_may_be_set(definition):
    assert refuse_policy(Policy("p", "^(?!amq)", definition), operator=False, vhost="/") is None


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("max-length", -1, "-1 is not a valid maximum length"),
        ("max-length-bytes", "1", '<<"1">> is not a valid maximum length in bytes'),
        ("message-ttl", 1.5, "1.5 is not a valid message TTL"),
        ("expires", 0, "0 is not a valid queue expiry"),
        ("delivery-limit", None, "undefined is not a valid delivery limit"),
        ("overflow", "drop", '<<"drop">> is not a valid overflow value'),
        ("dead-letter-exchange", 1, "1 is not a valid dead letter exchange name"),
        ("dead-letter-routing-key", 1, "1 is not a valid dead letter routing key"),
        ("dead-letter-strategy", "x", '<<"x">> is not a valid dead letter strategy'),
        ("alternate-exchange", True, "true is not a valid alternate exchange name"),
        ("no-such-key", 1, '[{<<"no-such-key">>,1}] are not recognised policy settings'),
    ],
)
def test_invalid_policy_settings_are_refused(key, value, text):
    policy = Policy("p", ".*", {key: value})

    assert refuse_policy(policy, operator=False, vhost="/") == precondition(
        f"Validation failed: {text}"
    )


def test_operator_policies_have_fewer_keys():
    """R-POL-7."""
    policy = Policy("p", ".*", {"dead-letter-exchange": "x", "alternate-exchange": "y"})

    assert refuse_policy(policy, operator=False, vhost="/") is None
    assert refuse_policy(policy, operator=True, vhost="/") == precondition(
        'Validation failed: [{<<"alternate-exchange">>,<<"y">>},'
        '{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings'
    )
    limits: dict[str, Any] = {"max-length": 1, "delivery-limit": 1, "overflow": "drop-head"}
    assert refuse_policy(Policy("p", "", limits), operator=True, vhost="/") is None


def test_policies_need_a_linear_pattern_and_something_to_apply_to():
    assert refuse_policy(Policy("p", r"(a)\1", {}), operator=False, vhost="/") == precondition(
        r"Validation failed: pattern '(a)\\1' cannot be matched in linear time or is malformed"
        r" (invalid escape sequence: \1); of look-arounds only '^(?!...)' at the beginning is"
        " supported, and no back-references"
    )
    assert refuse_policy(
        Policy("p", "", {}, apply_to="queue"), operator=False, vhost="/"
    ) == precondition(
        "Validation failed: apply-to 'queue' unrecognised; should be one of:"
        " all, exchanges, queues, classic_queues, quorum_queues, streams"
    )


def test_3_10_refuses_a_negative_delivery_limit_by_policy():
    policy = Policy("p", "", {"delivery-limit": -1})

    assert refuse_policy(policy, operator=True, vhost="/") is None
    assert refuse_policy(policy, operator=True, vhost="/", compat="3.10") == precondition(
        "Validation failed: -1 is not a valid delivery limit"
    )


def test_refusals_that_need_no_arguments_read_as_rabbitmqs():
    locked = (
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'."
        " It could be originally declared on another connection or the exclusive property value"
        " does not match that of the original declaration."
    )

    assert no_exchange("x", "/") == Refusal(404, "NOT_FOUND - no exchange 'x' in vhost '/'")
    assert no_queue("q", "/") == Refusal(404, "NOT_FOUND - no queue 'q' in vhost '/'")
    assert internal_exchange("x", "/") == Refusal(
        403, "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'"
    )
    assert exclusive_queue("q", "/") == Refusal(405, locked)
    assert exchange_in_use("x", "/") == precondition("exchange 'x' in vhost '/' in use")
    assert queue_in_use("q", "/") == precondition("queue 'q' in vhost '/' in use")
    assert queue_not_empty("q", "/") == precondition("queue 'q' in vhost '/' not empty")


def test_the_brokers_own_exchanges_cannot_be_deleted():
    assert refuse_exchange_deletion("x", "/") is None
    assert refuse_exchange_deletion("", "/") == Refusal(
        403, "ACCESS_REFUSED - operation not permitted on the default exchange"
    )
    assert refuse_exchange_deletion("amq.topic", "/") == Refusal(
        403,
        "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '/' not allowed",
    )
