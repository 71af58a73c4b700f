"""The policy that applies to a queue or exchange."""

import pytest

from tests.unit.topology.short_forms import a_policy, a_queue, a_quorum_queue
from topology.declarations import Exchange
from topology.errors import UnsupportedPatternError
from topology.policies import PolicyTable, QueueSettings


def a_table(*policies, operator=()):
    table = PolicyTable()
    for policy in policies:
        table.set(policy)
    for policy in operator:
        table.set(policy, operator=True)
    return table


def chosen(table, queue, *, operator=False):
    policy = table.applying_to(queue, operator=operator)
    return policy.name if policy else None


def test_the_policy_of_highest_priority_applies_alone():
    """R-POL-4: policies are never merged."""
    table = a_table(
        a_policy("low", {"max-length": 1, "message-ttl": 1}, priority=1),
        a_policy("high", {"max-length": 2}, priority=2),
        a_policy("elsewhere", {"max-length": 3}, pattern="^other$", priority=3),
    )

    assert table.queue_settings(a_queue()) == QueueSettings("classic", max_length=2, policy="high")


def test_of_equal_priorities_the_first_name_applies_in_any_order_of_setting():
    """R-POL-9."""
    names = ["b", "a", "c"]
    tables = [a_table(*(a_policy(name) for name in order)) for order in (names, names[::-1])]

    assert [chosen(table, a_queue()) for table in tables] == ["a", "a"]


@pytest.mark.parametrize(
    ("apply_to", "classic", "quorum", "exchange"),
    [
        ("all", True, True, True),
        ("queues", True, True, False),
        ("exchanges", False, False, True),
        ("classic_queues", True, False, False),
        ("quorum_queues", False, True, False),
        ("streams", False, False, False),
    ],
)
def test_a_policy_applies_to_the_kinds_of_its_apply_to(apply_to, classic, quorum, exchange):
    """R-POL-1."""
    table = a_table(a_policy(apply_to=apply_to))

    assert (chosen(table, a_queue()) is not None) is classic
    assert (chosen(table, a_quorum_queue()) is not None) is quorum
    assert (table.applying_to(Exchange("x")) is not None) is exchange


@pytest.mark.parametrize(
    ("key", "queue"),
    [
        ("delivery-limit", a_queue()),
        ("dead-letter-strategy", a_queue()),
        ("max-age", a_queue()),
        ("max-priority", a_quorum_queue()),
        ("queue-mode", a_quorum_queue()),
        ("ha-mode", a_quorum_queue()),
    ],
)
def test_a_policy_with_a_key_foreign_to_the_queue_type_does_not_match_at_all(key, queue):
    """R-POL-10."""
    table = a_table(a_policy("foreign", {key: 1, "max-length": 1}, priority=9), a_policy("fitting"))

    assert chosen(table, queue) == "fitting"


def test_a_policy_can_be_replaced_and_cleared():
    table = a_table(a_policy("p", {"max-length": 1}), operator=[a_policy("p", {"max-length": 3})])

    table.set(a_policy("p", {"max-length": 2}))
    assert table.queue_settings(a_queue()).max_length == 2
    assert [table.clear("p"), table.clear("p")] == [True, False]
    assert table.queue_settings(a_queue()).max_length == 3
    assert [table.clear("p", operator=True), table.clear("p", operator=True)] == [True, False]
    assert table.queue_settings(a_queue()) == QueueSettings("classic")


def test_an_invalid_pattern_changes_nothing():
    table = a_table(a_policy("p"))

    with pytest.raises(UnsupportedPatternError):
        table.set(a_policy("p", {"max-length": 1}, pattern="("))
    assert table.policies() == [a_policy("p")]


def test_an_exchanges_argument_overrides_the_alternate_of_its_policy():
    """R-AE-5."""
    table = a_table(a_policy("p", {"alternate-exchange": "policy"}, pattern="^x"))

    assert table.exchange_alternate(Exchange("x")) == "policy"
    assert table.exchange_alternate(Exchange("x", arguments={"alternate-exchange": ""})) == ""
    assert table.exchange_alternate(Exchange("y")) is None
    table.set(a_policy("all", {"alternate-exchange": "policy"}))
    assert table.exchange_alternate(Exchange("")) is None
    assert table.exchange_alternate(Exchange("amq.topic", "topic")) == "policy"


def test_the_keys_in_effect_are_those_of_both_policies_the_lower_limit_counts():
    """R-POL-7."""
    table = a_table(
        a_policy("user", {"max-length": 9, "dead-letter-exchange": "dlx"}),
        operator=[a_policy("operator", {"max-length": 5, "message-ttl": 7})],
    )

    assert table.effective(a_queue()) == {
        "max-length": 5,
        "dead-letter-exchange": "dlx",
        "message-ttl": 7,
    }
