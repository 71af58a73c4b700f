"""Consumer timeouts of queues (R-SET-13): by argument, by policy, and beside that of the vhost.

RabbitMQ 4.0.5 was asked for all of them, but for deliveries of several queues on one channel.
"""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from tests.builders import START_MS, Broker
from topology.values import Timestamp

CUT = pytest.mark.parametrize("cut", [False, True])


def closed_at(broker: Broker) -> list[int]:
    """When channels were closed by a timeout, from the start in milliseconds."""
    return [
        event.at_ms - START_MS
        for event in broker.everything()
        if event.kind is Kind.CHANNEL and (event.detail or {}).get("cause") == "consumer_timeout"
    ]


def with_message(broker: Broker, queue: str = "q", **arguments: object) -> Broker:
    """With a queue that holds a message."""
    assert broker.queue(queue, **arguments) is None
    broker.publish("", queue, f"of {queue}")
    return broker


@CUT
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
@pytest.mark.parametrize("of_vhost_ms", [500, 5_000, None])
def test_a_queue_has_a_timeout_of_its_own(cut, queue_type, of_vhost_ms):
    broker = Broker(cut=cut, consumer_timeout_ms=of_vhost_ms)
    with_message(broker, queue_type=queue_type, consumer_timeout=1_000)
    broker.consume("q", "c", channel="c0")

    broker.at(10_000)

    assert closed_at(broker) == [1_000]
    assert broker.depth("q") == 1


@CUT
@pytest.mark.parametrize(
    ("argument", "policy", "after_ms"),
    [
        (None, 300, 300),
        (900, 300, 300),
        (200, 300, 200),
        (0, None, 1),
        (-1, None, 1),
        (-(10**15), 300, 1),
        (None, 0, 1),
        (Timestamp(400), None, 400),
        ("1", None, None),
        ("1", 300, 300),
        (2.5, None, None),
        (2.5, 300, None),
        (300.5, 300, 300),
        (True, None, None),
        ([1], 300, 300),
        (1 << 62, None, None),
    ],
)
def test_the_smaller_of_argument_and_policy_counts_and_what_is_no_integer_never_ends(
    cut, argument, policy, after_ms
):
    broker = Broker(cut=cut, consumer_timeout_ms=1_000)
    if policy is not None:
        assert broker.policy("p", "", {"consumer-timeout": policy}) is None
    with_message(broker, **({} if argument is None else {"consumer_timeout": argument}))
    broker.consume("q", "c", channel="c0")

    for at_ms in (1, 10_000):
        broker.at(at_ms)

    assert closed_at(broker) == ([] if after_ms is None else [after_ms])


@CUT
def test_each_delivery_has_the_timeout_of_its_queue(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=2_000)
    with_message(broker, "slow", consumer_timeout=5_000)
    with_message(broker, "usual")
    with_message(broker, "quick", consumer_timeout=1_000)
    for at_ms, queue in enumerate(["slow", "usual", "quick"]):
        broker.at(at_ms * 100).consume(queue, queue, channel="c0")
    for queue in ("slow", "usual", "quick"):
        broker.at(300).consume(queue, f"{queue}-2", channel="c1")

    broker.at(1_199)
    before = closed_at(broker)
    broker.at(9_000)

    assert before == []
    assert closed_at(broker) == [1_200, 2_200], "of c0; then of c1, which got all of it"


@CUT
def test_each_get_has_the_timeout_of_its_queue(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=4_000)
    for queue, timeout_ms in (("slow", 5_000), ("quick", 1_000), ("other", 1_000)):
        with_message(broker, queue, consumer_timeout=timeout_ms)
    with_message(broker, "usual")
    for at_ms, queue in ((0, "slow"), (200, "usual"), (500, "quick"), (600, "other")):
        broker.at(at_ms).get(queue, queue, channel="c0")
    broker.at(1_400).ack("quick/0", channel="c0")

    broker.at(1_599)
    before = closed_at(broker)
    broker.at(9_000)

    assert before == []
    assert closed_at(broker) == [1_600]


@CUT
def test_the_next_delivery_counts_when_the_first_one_is_settled(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=2_000)
    with_message(broker, "usual")
    with_message(broker, "quick", consumer_timeout=1_000)
    broker.get("quick", "g", channel="c0")
    broker.at(500).get("usual", "h", channel="c0")
    broker.ack("g/0", channel="c0")

    broker.at(9_000)

    assert closed_at(broker) == [2_500]


@CUT
def test_a_policy_counts_for_deliveries_that_are_unsettled(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=5_000)
    with_message(broker, "early")
    with_message(broker, "late")
    broker.get("early", "g", channel="c0")
    broker.at(900).get("late", "h", channel="c1")

    broker.at(1_000).policy("p", "", {"consumer-timeout": 500})
    broker.at(9_000)

    assert closed_at(broker) == [1_001, 1_400]


@CUT
def test_a_policy_that_goes_gives_deliveries_the_time_of_the_vhost(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=5_000)
    with_message(broker)
    broker.policy("p", "", {"consumer-timeout": 1_000})
    broker.get("q", "g", channel="c0")

    broker.at(500).do(commands.ClearPolicy(name="p"))
    broker.at(9_000)

    assert closed_at(broker) == [5_000]


@CUT
@pytest.mark.parametrize(("own_ms", "after_ms"), [(9_000, 2_000), (1_000, 2_000)])
def test_deliveries_of_a_deleted_queue_have_the_timeout_of_the_vhost(cut, own_ms, after_ms):
    broker = Broker(cut=cut, consumer_timeout_ms=2_000)
    with_message(broker, consumer_timeout=own_ms)
    broker.consume("q", "c", channel="c0")

    broker.at(500).do(commands.DeleteQueue(queue="q"))
    broker.at(20_000)

    assert closed_at(broker) == [after_ms]


def test_the_channel_that_timed_out_is_named_with_the_timeout_of_the_delivery():
    broker = with_message(Broker(), consumer_timeout=-5)
    broker.get("q", "g")

    broker.at(10)

    assert broker.shard.take_timed_out() == [("c0", -5)]


@pytest.mark.parametrize("config", [{"compat": "3.10"}, {"ignores_timeouts": True}])
def test_rabbitmq_3_10_and_a_replay_know_no_timeouts_of_queues(config):
    broker = Broker(**config, consumer_timeout_ms=None)
    broker.policy("p", "", {"consumer-timeout": 10})
    with_message(broker, consumer_timeout=5)
    broker.get("q", "g", channel="c0")

    broker.policy("p", "", {"consumer-timeout": 2})
    broker.at(1_000_000_000)

    assert closed_at(broker) == []


def test_a_redeclaration_may_name_another_timeout():
    broker = with_message(Broker(), consumer_timeout=1_000)

    assert broker.queue("q", consumer_timeout="other") is None
    assert broker.queue("q") is None
    broker.get("q", "g", channel="c0")
    broker.at(9_000)
    assert closed_at(broker) == [1_000]


def test_the_policy_key_is_checked_as_by_the_version_of_rabbitmq():
    broker, old = Broker(), Broker(compat="3.10")

    refusals = [
        broker.policy("p", "", {"consumer-timeout": -1}),
        broker.policy("p", "", {"consumer-timeout": "5"}),
        broker.policy("p", "", {"consumer-timeout": 5}, operator=True),
    ]

    assert [None if one is None else one.text.partition(": ")[2] for one in refusals] == [
        "-1 is not a valid consumer timeout",
        '<<"5">> is not a valid consumer timeout',
        '[{<<"consumer-timeout">>,5}] are not recognised policy settings',
    ]
    assert old.policy("p", "", {"consumer-timeout": "5"}) is None
