"""The delivery limit of quorum queues that are given none (R-DLV-5)."""

import pytest

from topology.declarations import Queue
from topology.policies import PolicyTable
from topology.values import Table


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
def test_a_default_counts_where_neither_argument_nor_policy_does(compat, default, argument, limit):
    arguments: Table = {"x-queue-type": "quorum"}
    if argument is not None:
        arguments["x-delivery-limit"] = argument

    settings = PolicyTable().queue_settings(Queue("q", arguments=arguments), compat, default)

    assert settings.delivery_limit == limit
