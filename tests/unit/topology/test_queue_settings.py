"""The effective settings of a queue from arguments, policy and operator policy."""

import pytest

from tests.unit.topology.short_forms import a_policy, a_queue, a_quorum_queue
from topology.policies import NO_TIMEOUT_MS, PolicyTable, QueueSettings
from topology.values import Timestamp


def settings(queue, policy=None, operator=None, compat="4.0"):
    """Settings of a queue under policies with these definitions."""
    table = PolicyTable()
    if policy is not None:
        table.set(a_policy("policy", policy))
    if operator is not None:
        table.set(a_policy("operator", operator), operator=True)
    return table.queue_settings(queue, compat)


def test_a_queue_without_arguments_and_policies_has_no_limits():
    assert settings(a_queue()) == QueueSettings("classic")
    assert settings(a_quorum_queue()) == QueueSettings("quorum", delivery_limit=20)
    assert settings(a_quorum_queue(), compat="3.10") == QueueSettings("quorum")


def test_arguments_override_policies_per_setting():
    """R-POL-2."""
    policy = {"dead-letter-exchange": "policy", "dead-letter-routing-key": "key"}

    assert settings(a_queue(dead_letter_exchange="argument"), policy) == QueueSettings(
        "classic",
        dead_letter_exchange="argument",
        dead_letter_routing_key="key",
        policy="policy",
    )
    assert settings(a_queue(), policy).dead_letter_exchange == "policy"
    assert settings(a_queue(dead_letter_exchange=""), policy).dead_letter_exchange == ""


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("message-ttl", "message_ttl_ms"),
        ("expires", "expires_ms"),
        ("max-length", "max_length"),
        ("max-length-bytes", "max_length_bytes"),
    ],
)
def test_the_smallest_of_argument_and_policies_applies(key, field):
    """R-POL-3, R-POL-7."""
    argument = key.replace("-", "_")

    for queue in (a_queue, a_quorum_queue):
        for low, mid, high in ((1, 2, 3), (2, 1, 3), (3, 2, 1)):
            found = settings(queue(**{argument: low}), {key: mid}, {key: high})
            assert getattr(found, field) == 1
        assert getattr(settings(queue(), None, {key: 7}), field) == 7


def test_on_3_10_the_policy_overrides_the_argument_for_expires_of_quorum_queues():
    """R-POL-12."""
    assert settings(a_quorum_queue(expires=1), {"expires": 2}, compat="3.10").expires_ms == 2
    assert settings(a_quorum_queue(expires=1), compat="3.10").expires_ms == 1
    assert settings(a_queue(expires=1), {"expires": 2}, compat="3.10").expires_ms == 1


@pytest.mark.parametrize(
    ("argument", "policy", "operator", "limit"),
    [
        (None, None, None, 20),
        (3, None, None, 3),
        (None, 4, None, 4),
        (None, None, 5, 5),
        (3, 4, None, 3),
        (4, 3, 5, 3),
        (5, 5, 3, 3),
        (0, 3, None, 0),
        (-1, None, None, None),
        (None, -1, None, None),
        (-1, 7, None, 7),
        (7, -1, None, 7),
        (-1, -2, None, None),
        (None, -1, 6, 6),
        (None, 6, -1, 6),
    ],
)
def test_the_delivery_limit_of_quorum_queues_on_4_0(argument, policy, operator, limit):
    """R-DLV-4, R-DLV-5, R-POL-3."""
    queue = a_quorum_queue() if argument is None else a_quorum_queue(delivery_limit=argument)
    found = settings(
        queue,
        None if policy is None else {"delivery-limit": policy},
        None if operator is None else {"delivery-limit": operator},
    )

    assert found.delivery_limit == limit


def test_on_3_10_there_is_no_default_delivery_limit():
    """R-DLV-5."""
    assert settings(a_quorum_queue(), compat="3.10").delivery_limit is None
    assert settings(a_quorum_queue(delivery_limit=3), compat="3.10").delivery_limit == 3


@pytest.mark.parametrize(
    ("queue_type", "argument", "policy", "overflow"),
    [
        ("classic", None, None, "drop-head"),
        ("classic", None, "reject-publish", "reject-publish"),
        ("classic", "reject-publish-dlx", "reject-publish", "reject-publish-dlx"),
        ("classic", "drop-head", "reject-publish", "drop-head"),
        ("quorum", None, None, "drop-head"),
        ("quorum", "reject-publish", None, "reject-publish"),
        ("quorum", "reject-publish", "drop-head", "drop-head"),
        ("quorum", "drop-head", "reject-publish", "reject-publish"),
        ("quorum", "reject-publish-dlx", None, "drop-head"),
        ("quorum", "reject-publish", "reject-publish-dlx", "drop-head"),
    ],
)
def test_overflow_is_set_by_the_argument_of_classic_and_the_policy_of_quorum_queues(
    queue_type, argument, policy, overflow
):
    """R-POL-2, R-POL-12, R-LEN-14."""
    arguments = {} if argument is None else {"overflow": argument}
    queue = a_queue(queue_type=queue_type, **arguments)

    assert settings(queue, policy and {"overflow": policy}).overflow == overflow


@pytest.mark.parametrize(
    ("queue", "policy", "at_least_once"),
    [
        (a_quorum_queue(dead_letter_strategy="at-least-once", dead_letter_exchange="x",
                        overflow="reject-publish"), None, True),
        (a_quorum_queue(), {"dead-letter-strategy": "at-least-once", "overflow": "reject-publish",
                            "dead-letter-exchange": "x"}, True),
        (a_quorum_queue(dead_letter_strategy="at-most-once"),
         {"dead-letter-strategy": "at-least-once", "overflow": "reject-publish",
          "dead-letter-exchange": "x"}, False),
        (a_quorum_queue(dead_letter_strategy="at-least-once", dead_letter_exchange="x"),
         None, False),
        (a_quorum_queue(dead_letter_strategy="at-least-once", overflow="reject-publish"),
         None, False),
        (a_queue(dead_letter_strategy="at-least-once", dead_letter_exchange="x",
                 overflow="reject-publish"), None, False),
    ],
)  # fmt: skip
def test_at_least_once_needs_strategy_exchange_and_reject_publish(queue, policy, at_least_once):
    """R-ALO-1."""
    assert settings(queue, policy).at_least_once is at_least_once


def test_only_classic_queues_have_priorities():
    """R-PRI-1, R-PRI-6."""
    assert settings(a_queue(max_priority=10)).max_priority == 10
    assert settings(a_quorum_queue(max_priority=10)).max_priority is None


def test_a_queue_may_have_an_alternate_exchange_of_its_own():
    """R-QPID-1: the argument, else the policy."""
    policy = {"queue-alternate-exchange": "policy"}

    assert settings(a_queue(), policy).alternate_exchange == "policy"
    assert settings(a_queue(alternate_exchange="own"), policy).alternate_exchange == "own"


def test_values_of_the_wrong_type_have_no_effect():
    assert settings(
        a_queue(max_length=True, dead_letter_exchange=1), {"message-ttl": "1", "overflow": 5}
    ) == QueueSettings("classic", policy="policy")


def test_an_operator_policy_adds_settings_that_the_policy_lacks():
    """R-POL-7."""
    found = settings(a_queue(), {"max-length": 5, "overflow": "drop-head"},
                     {"message-ttl": 9, "overflow": "reject-publish"})  # fmt: skip

    assert found == QueueSettings(
        "classic",
        max_length=5,
        message_ttl_ms=9,
        overflow="reject-publish",
        policy="policy",
        operator_policy="operator",
    )


@pytest.mark.parametrize(
    ("compat", "default", "argument", "limit"),
    [
        ("4.0", None, None, 20),
        ("3.10", None, None, None),
        ("4.0", 5, None, 5),
        ("3.10", 5, None, 5),
        ("4.0", -1, None, None),
        ("4.0", 5, 7, 7),
    ],
)
def test_the_default_delivery_limit_applies_without_argument_and_policy(
    compat, default, argument, limit
):
    """R-DLV-5."""
    queue = a_quorum_queue() if argument is None else a_quorum_queue(delivery_limit=argument)

    assert PolicyTable().queue_settings(queue, compat, default).delivery_limit == limit


@pytest.mark.parametrize(
    ("argument", "policy", "timeout_ms"),
    [
        (None, None, None),
        (5, None, 5),
        (None, 7, 7),
        (5, 7, 5),
        (9, 7, 7),
        (-1, 7, -1),
        (Timestamp(3), None, 3),
        ("5", None, NO_TIMEOUT_MS),
        (False, 7, 7),
        (6.5, 7, NO_TIMEOUT_MS),
        (7.0, 7, 7),
    ],
)
def test_the_consumer_timeout_is_the_smaller_of_argument_and_policy(argument, policy, timeout_ms):
    """R-SET-13."""
    queue = a_queue() if argument is None else a_queue(consumer_timeout=argument)
    definition = {} if policy is None else {"consumer-timeout": policy}

    assert settings(queue, definition).consumer_timeout_ms == timeout_ms
    assert settings(queue, definition, compat="3.10").consumer_timeout_ms is None
