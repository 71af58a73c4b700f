"""Declarations and the objects every vhost has."""

import pytest

from topology.declarations import PREDECLARED, Binding, Queue


@pytest.mark.parametrize(
    ("arguments", "queue_type"),
    [
        ({}, "classic"),
        ({"x-queue-type": "quorum"}, "quorum"),
        ({"x-queue-type": "stream"}, "stream"),
        ({"x-queue-type": 1}, "classic"),
    ],
)
def test_a_queue_has_the_type_of_its_arguments_or_classic(arguments, queue_type):
    assert Queue("q", arguments=arguments).queue_type == queue_type


def test_bindings_differ_by_key_and_arguments():
    keys = {
        Binding("x", "q").key,
        Binding("x", "q", "exchange").key,
        Binding("x", "q", routing_key="k").key,
        Binding("x", "q", arguments={"a": 1}).key,
        Binding("x", "q", arguments={"a": True}).key,
        Binding("x", "q", arguments={"a": 1.0}).key,
    }

    assert len(keys) == 6
    assert Binding("x", "q", arguments={"a": 1, "b": 2}).key == (
        Binding("x", "q", arguments={"b": 2, "a": 1}).key
    )


def test_every_vhost_has_the_default_exchange_and_five_more():
    assert [(exchange.name, exchange.type) for exchange in PREDECLARED] == [
        ("", "direct"),
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
        ("amq.topic", "topic"),
    ]
