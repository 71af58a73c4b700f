"""Bindings and policies that RabbitMQ refuses, with its codes and texts."""

from decimal import Decimal
from typing import Any

import pytest

from topology.declarations import Binding, Policy
from topology.refusals import Refusal
from topology.validation.refuse import refuse_binding, refuse_policy
from topology.values import Timestamp


def precondition(text):
    return Refusal(406, f"PRECONDITION_FAILED - {text}")


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
        (b"all", 'Invalid x-match field type binary (value <<"all">>); expected longstr'),
        (b"\1", "Invalid x-match field type binary (value <<1>>); expected longstr"),
        (b"\xff", 'Invalid x-match field type binary (value <<"ÿ">>); expected longstr'),
        (b"\x80", "Invalid x-match field type binary (value <<128>>); expected longstr"),
        (b"a\nb", 'Invalid x-match field type binary (value <<"a\\nb">>); expected longstr'),
        ("", "Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x"),
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

    assert refuse_binding(binding, "headers") == precondition(text)
    assert refuse_binding(binding, "topic") is None


def test_too_many_hashes_are_refused_by_topic_exchanges_only():
    binding = Binding("t", "q", routing_key=".".join("#" * 11))
    refusal = precondition("binding key '#.#.#.#.#.#.#.#.#.#.#' has 11 '#', more than 10")

    assert refuse_binding(binding, "topic") == refusal
    assert refuse_binding(binding, "direct") is None
    assert refuse_binding(Binding("t", "q", routing_key=".".join("#" * 10)), "topic") is None


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
            precondition("routing key has 256 bytes, more than 255"),
        ),
    ],
)
def test_the_default_exchange_cannot_be_bound_and_keys_are_short(binding, refusal):
    assert refuse_binding(binding, "direct") == refusal


@pytest.mark.parametrize(
    "definition",
    [
        {"max-length": 0, "message-ttl": 0, "expires": 1, "overflow": "reject-publish"},
        {"delivery-limit": -1, "dead-letter-strategy": "at-least-once"},
        {"dead-letter-exchange": "", "dead-letter-routing-key": "", "alternate-exchange": ""},
        {"queue-alternate-exchange": "x", "ha-mode": "all", "federation-upstream-set": "all"},
    ],
)
def test_ordinary_policies_may_be_set(definition):
    assert refuse_policy(Policy("p", "^(?!amq)", definition), operator=False) is None


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

    assert refuse_policy(policy, operator=False) == precondition(f"Validation failed: {text}")


def test_operator_policies_have_fewer_keys():
    """R-POL-7."""
    policy = Policy("p", ".*", {"dead-letter-exchange": "x", "alternate-exchange": "y"})

    assert refuse_policy(policy, operator=False) is None
    assert refuse_policy(policy, operator=True) == precondition(
        'Validation failed: [{<<"alternate-exchange">>,<<"y">>},'
        '{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings'
    )
    limits: dict[str, Any] = {"max-length": 1, "delivery-limit": 1, "overflow": "drop-head"}
    assert refuse_policy(Policy("p", "", limits), operator=True) is None


def test_policies_need_a_linear_pattern_and_an_apply_to():
    assert refuse_policy(Policy("p", r"(a)\1", {}), operator=False) == precondition(
        r"Validation failed: pattern '(a)\\1' cannot be matched in linear time or is malformed"
        r" (invalid escape sequence: \1); of look-arounds only '^(?!...)' at the beginning is"
        " supported, and no back-references"
    )
    assert refuse_policy(
        Policy("p", "", {"expires": 1}, apply_to="queue"), operator=False
    ) == precondition(
        "Validation failed: apply-to 'queue' unrecognised; should be one of: 'queues',"
        " 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'"
    )


@pytest.mark.parametrize("operator", [False, True])
@pytest.mark.parametrize("compat", ["3.10", "4.0"])
def test_a_policy_must_set_a_key(operator, compat):
    refusal = refuse_policy(Policy("p", ".*", {}), compat, operator=operator)

    assert refusal == precondition("Validation failed: no policy provided")


def test_3_10_refuses_a_negative_delivery_limit_by_policy():
    policy = Policy("p", "", {"delivery-limit": -1})

    assert refuse_policy(policy, operator=True) is None
    assert refuse_policy(policy, operator=True, compat="3.10") == precondition(
        "Validation failed: -1 is not a valid delivery limit"
    )
