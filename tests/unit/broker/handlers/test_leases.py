"""Leases of channels and the consumer timeout: channels closed by time."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from tests.builders import Broker
from topology.declarations import Queue

CUT = pytest.mark.parametrize("cut", [False, True])


def what(broker: Broker) -> list[tuple[str, str]]:
    """Kind and reason of the events of channels."""
    return [(detail["what"], detail.get("cause", "")) for _, detail in broker.of_kind(Kind.CHANNEL)]


@CUT
def test_a_channel_without_commands_is_closed_when_its_lease_ends(cut):
    broker = Broker(cut=cut)
    broker.queue("work")
    broker.publish("", "work", "m1")
    broker.do(commands.OpenChannel(channel="c0", lease_ms=1_000))
    broker.get("work", "g")

    broker.at(999)
    before = broker.story()
    broker.at(1_000)

    assert before == ["m1 enqueued in work", "m1 delivered in work"]
    assert broker.story() == ["m1 requeued in work"]
    assert what(broker) == [("channel_opened", ""), ("channel_closed", "lease_expired")]


@CUT
@pytest.mark.parametrize(
    "command",
    [
        commands.Renew(channel="c0"),
        commands.Ack(refs=("g/9",), channel="c0"),
        commands.Cancel(label="nobody", channel="c0"),
        commands.Recover(channel="c0"),
        commands.Depth(queue="work", channel="c0"),
        commands.Get(queue="work", channel="c0"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_every_command_of_a_channel_renews_its_lease(cut, command):
    broker = Broker(cut=cut)
    broker.queue("work")
    broker.do(commands.OpenChannel(channel="c0", lease_ms=1_000))

    broker.at(900).do(command)
    broker.at(1_899)
    before = what(broker)
    broker.at(1_900)

    assert before == [("channel_opened", "")]
    assert what(broker) == [("channel_opened", ""), ("channel_closed", "lease_expired")]


@CUT
def test_a_channel_without_a_lease_stays_open(cut):
    broker = Broker(cut=cut)
    broker.do(commands.OpenChannel(channel="c0", lease_ms=1_000))
    broker.do(commands.OpenChannel(channel="c0"))

    broker.at(1_000_000)

    assert what(broker) == [("channel_opened", ""), ("channel_opened", "")]


def test_a_renewal_is_answered_with_whether_the_channel_is_open_and_has_a_lease():
    broker = Broker()
    broker.queue("q")
    broker.do(commands.OpenChannel(channel="c0", lease_ms=1_000))
    broker.do(commands.Get(queue="q", channel="opened by a get"))

    answers = [
        broker.answer(commands.Renew(channel=name)) for name in ("c0", "other", "opened by a get")
    ]
    assert answers == [
        {"open": True, "lease_ms": 1_000, "number": 1},
        {"open": False, "lease_ms": None, "number": None},
        {"open": True, "lease_ms": None, "number": 2},
    ]


@CUT
@pytest.mark.parametrize(
    "command",
    [
        commands.Get(queue="q", channel="c0", lease_ms=1_000),
        commands.Consume(queue="q", label="c", channel="c0", lease_ms=1_000),
    ],
    ids=["get", "consume"],
)
def test_a_channel_opened_by_a_command_with_a_lease_has_that_lease(cut, command):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.publish("", "q", "held")
    broker.do(command)

    broker.at(1_000)

    assert ("channel_closed", "lease_expired") in what(broker)
    assert broker.depth("q") == 1


def test_a_reopened_channel_has_a_new_number_and_an_open_one_keeps_its_lease():
    broker = Broker()
    broker.queue("q")
    first = broker.answer(commands.OpenChannel(channel="c0", lease_ms=1_000))
    broker.do(commands.Get(queue="q", channel="c0", lease_ms=5))
    kept = broker.answer(commands.Renew(channel="c0"))
    broker.do(commands.CloseChannel(channel="c0"))
    broker.do(commands.Get(queue="q", channel="c0", lease_ms=5))

    assert first == {"number": 1}
    assert kept == {"open": True, "lease_ms": 1_000, "number": 1}
    assert broker.answer(commands.Renew(channel="c0")) == {
        "open": True,
        "lease_ms": 5,
        "number": 2,
    }


@CUT
def test_the_timer_of_an_earlier_shorter_lease_has_no_effect(cut):
    broker = Broker(cut=cut)
    broker.do(commands.OpenChannel(channel="c0", lease_ms=100))
    broker.do(commands.OpenChannel(channel="c0", lease_ms=1_000))

    broker.at(999)
    before = what(broker)
    broker.at(1_000)

    assert before == [("channel_opened", ""), ("channel_opened", "")]
    assert what(broker)[2:] == [("channel_closed", "lease_expired")]


@CUT
def test_the_timer_of_an_earlier_longer_lease_has_no_effect(cut):
    broker = Broker(cut=cut)
    broker.do(commands.OpenChannel(channel="c0", lease_ms=1_000))
    broker.do(commands.OpenChannel(channel="c0", lease_ms=500))
    broker.at(400).do(commands.Renew(channel="c0"))
    broker.at(850).do(commands.Renew(channel="c0"))

    broker.at(1_349)
    before = what(broker)
    broker.at(1_350)

    assert before == [("channel_opened", ""), ("channel_opened", "")]
    assert what(broker)[2:] == [("channel_closed", "lease_expired")]


@CUT
def test_a_channel_is_closed_when_a_delivery_is_unacked_for_too_long(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=1_000)
    broker.queue("work")
    broker.publish("", "work", "m1")
    broker.publish("", "work", "m2")
    broker.get("work", "g")
    broker.at(600).get("work", "h")
    broker.ack("g/0")

    broker.at(1_599)
    before = what(broker)
    broker.at(1_600)

    assert before == []
    assert what(broker) == [("channel_closed", "consumer_timeout")]
    assert broker.story()[-1] == "m2 requeued in work"


@CUT
def test_a_channel_with_nothing_unacked_has_no_timeout(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=1_000)
    broker.queue("work")
    broker.publish("", "work", "m1")
    broker.get("work", "g")
    broker.ack("g/0")

    broker.at(10_000)

    assert what(broker) == []


def test_without_consumer_timeout_deliveries_stay_unacked():
    broker = Broker(consumer_timeout_ms=None)
    broker.queue("work")
    broker.publish("", "work", "m1")
    broker.get("work", "g")

    broker.at(1_000_000_000)

    assert what(broker) == []


@CUT
def test_the_timers_of_a_closed_channel_have_no_effect(cut):
    broker = Broker(cut=cut, consumer_timeout_ms=1_000)
    broker.queue("work")
    broker.publish("", "work", "m1")
    broker.do(commands.OpenChannel(channel="c0", lease_ms=500))
    broker.get("work", "g")
    broker.close_channel("c0")

    broker.at(10_000)

    assert what(broker) == [("channel_opened", ""), ("channel_closed", "close_channel")]


@CUT
def test_an_exclusive_queue_is_deleted_when_the_lease_of_its_channel_expires(cut):
    broker = Broker(cut=cut)
    queue = Queue("mine", exclusive=True)
    broker.do(commands.DeclareQueue(queue=queue, channel="c0", lease_ms=1_000))

    assert broker.of_kind(Kind.CHANNEL) == [("", {"what": "channel_opened", "lease_ms": 1_000})]
    broker.at(999)
    assert broker.depth("mine") == 0
    broker.at(1_000)
    assert broker.depth("mine") is None


def test_an_exclusive_queue_does_not_change_the_lease_of_an_open_channel():
    broker = Broker()
    broker.do(commands.OpenChannel(channel="c0", lease_ms=5_000))
    queue = Queue("mine", exclusive=True)
    broker.do(commands.DeclareQueue(queue=queue, channel="c0", lease_ms=1_000))

    broker.at(4_999)
    assert broker.depth("mine") == 0
    broker.at(5_000)
    assert broker.depth("mine") is None


def test_a_renewal_concerns_only_the_users_own_channel_of_that_name():
    broker = Broker()
    broker.do(commands.OpenChannel(channel="c0", lease_ms=1_000), user="clerk")

    of_the_clerk = broker.answer(commands.Renew(channel="c0"), user="clerk")
    of_another = broker.answer(commands.Renew(channel="c0"), user="guest")

    assert isinstance(of_the_clerk, dict)
    assert (of_the_clerk["open"], of_the_clerk["lease_ms"]) == (True, 1_000)
    assert of_another == {"open": False, "lease_ms": None, "number": None}


def test_a_shard_that_stays_open_names_the_channels_that_timed_out_once():
    broker = Broker(consumer_timeout_ms=1_000)
    broker.queue("work")
    broker.publish("", "work", "m1")
    broker.get("work", "g")

    broker.at(1_000)

    assert broker.shard.take_timed_out() == [("c0", 1_000)]
    assert broker.shard.take_timed_out() == []
