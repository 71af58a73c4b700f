"""Limits of vhosts and users on connections and channels (R-LIMIT)."""

import pika
import pytest

from streaming.amqp.login import new_password_hash
from streaming.testing.broker import TestBroker


@pytest.fixture
def broker():
    broker = TestBroker().start()
    yield broker
    broker.stop()


def load(broker, user_limits, vhost_limits):
    guest = new_password_hash("guest")
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    broker.load(
        {
            "vhosts": [{"name": "/"}],
            "users": [{"name": "guest", "password_hash": guest, "limits": user_limits}],
            "permissions": [{"user": "guest", "vhost": "/", **everything}],
            "parameters": [
                {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": vhost_limits}
            ],
        }
    )


def connect(broker):
    return pika.BlockingConnection(pika.URLParameters(broker.url))


@pytest.mark.parametrize(
    ("user_limits", "vhost_limits", "text"),
    [
        ({"max-connections": 1}, {}, "user connection limit (1) is reached"),
        ({}, {"max-connections": 1}, "connection limit (1) is reached"),
    ],
)
def test_connections_are_limited(broker, user_limits, vhost_limits, text):
    load(broker, user_limits, vhost_limits)
    with connect(broker), pytest.raises(pika.exceptions.AMQPError) as refused:
        connect(broker)

    assert text in str(refused.value)


def test_channels_of_a_user_are_limited(broker):
    load(broker, {"max-channels": 1}, {})
    connection = connect(broker)
    connection.channel()

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=r"limit of \(1\)"):
        connection.channel()


def test_a_limit_counts_for_connections_that_were_open_before_it_was_set(broker):
    connection = connect(broker)
    connection.channel()
    load(broker, {"max-channels": 1}, {})

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=r"limit of \(1\)"):
        connection.channel()
