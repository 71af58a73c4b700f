"""Which consumer gets a copy: exclusive consumers, priorities, a single active one (R-CONS)."""

from typing import Any

import pytest

from streaming.broker import commands
from tests.builders import Broker
from topology.refusals import Refusal

CUT = pytest.mark.parametrize("cut", [False, True])
BOTH = pytest.mark.parametrize("kind", ["classic", "quorum"])


def a_broker(
    kind: str = "classic", *, cut: bool = False, config: Any = None, **args: Any
) -> Broker:
    broker = Broker(cut=cut, **{"vhost": "v", **(config or {})})
    broker.queue("q", queue_type=kind, **args)
    return broker


def publish(broker: Broker, count: int) -> None:
    for _ in range(count):
        broker.publish("", "q", f"m{len(broker.bodies) + 1}")


def consume(
    broker: Broker, label: str, channel: str = "c0", priority: int = 0, **fields: Any
) -> Refusal | None:
    arguments = {"x-priority": priority} if priority else {}
    return broker.consume("q", label, channel=channel, arguments=arguments, **fields)


def new(broker: Broker, before: int) -> list[str]:
    return broker.deliveries()[before:]


IN_USE = Refusal(403, "ACCESS_REFUSED - queue 'q' in vhost 'v' in exclusive use")


@CUT
def test_r_cons_1_an_exclusive_consumer_is_the_only_one(cut):
    broker = a_broker(cut=cut)
    assert consume(broker, "a", exclusive=True) is None
    assert consume(broker, "b", "c1") == IN_USE
    assert consume(broker, "b", "c2", exclusive=True) == IN_USE
    publish(broker, 1)
    assert broker.get("q", channel="c3") == []

    broker.do(commands.Cancel(label="a"))
    assert consume(broker, "b", "c4") is None
    assert consume(broker, "c", "c5", exclusive=True) == IN_USE


def test_r_cons_1_quorum_queues_ignore_exclusive():
    broker = a_broker("quorum")
    assert consume(broker, "a", exclusive=True) is None
    assert consume(broker, "b", exclusive=True) is None


def test_r_cons_1_a_queue_with_a_single_active_consumer_has_no_exclusive_one():
    broker = a_broker(single_active_consumer=True)

    assert consume(broker, "a", exclusive=True) == IN_USE


@CUT
@BOTH
def test_r_cons_2_consumers_of_higher_priority_come_first_while_they_have_room(kind, cut):
    broker = a_broker(kind, cut=cut)
    consume(broker, "lo", priority=-1)
    consume(broker, "hi", "b", priority=5, prefetch=2)
    consume(broker, "ha", "b", priority=5, prefetch=2)
    consume(broker, "mid", "c")
    consume(broker, "one", "c", prefetch=1)

    publish(broker, 9)

    order = [delivery.partition("/")[0] for delivery in broker.deliveries()]
    assert order == ["hi", "ha", "hi", "ha", "mid", "one", "mid", "mid", "mid"]
    broker.ack("hi/0")
    publish(broker, 1)
    assert new(broker, 9) == ["hi/2 m10"]


@CUT
def test_r_cons_2_without_consumers_priorities_are_forgotten(cut):
    broker = a_broker(cut=cut)
    consume(broker, "a", priority=1)
    broker.do(commands.Cancel(label="a"))
    consume(broker, "b")

    assert not broker.shard.state.queues.named("q").line.ranked


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", "longstr"), (True, "bool"), (None, "void"), ({"a": 1}, "table"), ([1], "array")],
)
def test_r_cons_3_a_priority_is_an_integer(value, kind):
    broker = a_broker()
    text = f"invalid arg 'x-priority' for queue 'q' in vhost 'v': \"expected integer, got {kind}\""

    refusal = broker.consume("q", "a", arguments={"x-priority": value})

    assert refusal == Refusal(406, f"PRECONDITION_FAILED - {text}")


@BOTH
@pytest.mark.parametrize("compat", ["3.10", "4.0"])
def test_r_cons_3_an_offset_is_for_streams(kind, compat):
    broker = a_broker(kind, config={"compat": compat})
    where = f"for queue 'q' in vhost 'v' of queue type rabbit_{kind}_queue"
    text = f"invalid arg 'x-stream-offset' {where}"

    refusal = broker.consume("q", "a", arguments={"x-stream-offset": "first"})

    refused = Refusal(406, f"PRECONDITION_FAILED - {text}")
    assert refusal == (refused if compat == "4.0" else None)


@pytest.mark.parametrize("compat", ["3.10", "4.0"])
def test_r_cons_3_only_3_10_knows_of_mirrored_queues(compat):
    broker = a_broker(config={"compat": compat})
    where = "for queue 'q' in vhost 'v'"
    text = f"invalid arg 'x-cancel-on-ha-failover' {where}: {{unacceptable_type,longstr}}"

    refusal = broker.consume("q", "a", arguments={"x-cancel-on-ha-failover": "x"})

    refused = Refusal(406, f"PRECONDITION_FAILED - {text}")
    assert refusal == (refused if compat == "3.10" else None)


@CUT
@BOTH
def test_r_cons_4_only_the_active_consumer_gets_messages(kind, cut):
    broker = a_broker(kind, cut=cut, single_active_consumer=True)
    consume(broker, "a")
    consume(broker, "b", "c1")
    consume(broker, "c", "c2")
    publish(broker, 3)

    broker.do(commands.Cancel(label="a"))
    publish(broker, 1)
    broker.ack("a/0")
    broker.reject("a/1", requeue=True)

    assert broker.deliveries() == ["a/0 m1", "a/1 m2", "a/2 m3", "b/0 m4", "b/1 m2"]
    broker.close_channel("c1")
    if kind == "classic":
        assert new(broker, 5) == ["c/0 m2", "c/1 m4"]
    else:
        assert new(broker, 5) == ["c/0 m4", "c/1 m2"]
    activated = [
        (event.queue, event.channel, event.detail)
        for event in broker.everything()
        if event.detail and event.detail["what"] == "consumer_activated"
    ]
    assert activated == [
        ("q", channel, {"what": "consumer_activated", "consumer": label})
        for channel, label in (("c0", "a"), ("c1", "b"), ("c2", "c"))
    ]


IN_ORDER, READY_FIRST = ["b/0 m1", "b/1 m2", "b/2 m3"], ["b/0 m2", "b/1 m3", "b/2 m1"]


@CUT
@pytest.mark.parametrize(
    ("kind", "compat", "alone"),
    [
        ("classic", "3.10", IN_ORDER),
        ("classic", "4.0", READY_FIRST),
        ("quorum", "3.10", READY_FIRST),
        ("quorum", "4.0", READY_FIRST),
    ],
)
@pytest.mark.parametrize("how", ["closed alone", "failed", "refused", "with its connection"])
def test_r_cons_5_what_the_next_gets_first(kind, compat, alone, how, cut):
    broker = a_broker(kind, cut=cut, config={"compat": compat}, single_active_consumer=True)
    broker.do(commands.OpenChannel(channel="c0", connection="k"))
    consume(broker, "a", prefetch=1)
    consume(broker, "of the same channel")
    consume(broker, "b", "c1")
    publish(broker, 3)

    match how:
        case "closed alone":
            broker.close_channel("c0")
        case "failed":
            broker.do(commands.CloseChannel(channel="c0", is_failure=True))
        case "refused":
            broker.do(commands.Settle(tag=99, channel="c0"))
        case _:
            broker.do(commands.CloseConnection(connection="k"))

    assert new(broker, 1) == (alone if how == "closed alone" else IN_ORDER)


@CUT
@pytest.mark.parametrize("compat", ["3.10", "4.0"])
def test_r_cons_5_a_queue_that_ends_with_the_channel_is_not_served(compat, cut):
    broker = Broker(cut=cut, compat=compat)
    broker.queue("q", single_active_consumer=True, auto_delete=True)
    consume(broker, "a")

    broker.close_channel("c0")

    assert broker.depth("q") is None


@CUT
def test_r_cons_5_consumers_that_end_with_a_connection_get_nothing(cut):
    broker = a_broker(cut=cut, single_active_consumer=True)
    for channel in ("x", "y"):
        broker.do(commands.OpenChannel(channel=channel, connection="k"))
        consume(broker, channel, channel)
    consume(broker, "z", "c1")
    publish(broker, 2)

    broker.do(commands.CloseConnection(connection="k"))

    assert broker.deliveries() == ["x/0 m1", "x/1 m2", "z/0 m1", "z/1 m2"]


@CUT
@pytest.mark.parametrize(
    ("kind", "compat", "successor"), [("classic", "4.0", "hi"), ("quorum", "3.10", "mid")]
)
def test_r_cons_6_the_next_one_by_priority(kind, compat, successor, cut):
    broker = a_broker(kind, cut=cut, config={"compat": compat}, single_active_consumer=True)
    consume(broker, "lo", prefetch=1)
    consume(broker, "mid", "c1", priority=2)
    consume(broker, "hi", "c2", priority=5)
    consume(broker, "ho", "c3", priority=5)
    publish(broker, 2)

    broker.ack("lo/0")
    assert broker.deliveries() == ["lo/0 m1", "lo/1 m2"]
    broker.do(commands.Cancel(label="lo"))
    publish(broker, 1)
    assert new(broker, 2) == [f"{successor}/0 m3"]


@CUT
def test_r_cons_6_of_equals_of_4_0_the_next_one_is_that_with_the_larger_prefetch(cut):
    broker = a_broker("quorum", cut=cut, single_active_consumer=True)
    consume(broker, "a", "c1")
    consume(broker, "b", "c2", prefetch=5)
    consume(broker, "c", "c3", prefetch=9)
    broker.do(commands.Cancel(label="a"))

    publish(broker, 1)

    assert broker.deliveries() == ["c/0 m1"]


@CUT
def test_r_cons_6_a_higher_priority_takes_over_a_quorum_queue_of_4_0(cut):
    broker = a_broker("quorum", cut=cut, single_active_consumer=True)
    consume(broker, "lo", prefetch=2)
    publish(broker, 3)
    consume(broker, "hi", "b", priority=5, prefetch=2)
    broker.ack("lo/0")
    assert broker.deliveries() == ["lo/0 m1", "lo/1 m2"]
    broker.ack("lo/1")
    assert new(broker, 2) == ["hi/0 m3"]
    publish(broker, 4)
    assert new(broker, 3) == ["hi/1 m4"]

    consume(broker, "mid", "c", priority=2)
    consume(broker, "mud", "c", priority=2)
    broker.close_channel("b")
    assert new(broker, 4) == [
        *("mid/0 m5", "mid/1 m6", "mid/2 m7"),
        *("mid/3 m3", "mid/4 m4"),
    ]
    broker.do(commands.Cancel(label="mid"))
    publish(broker, 1)
    assert new(broker, 9) == ["mud/0 m8"]


@CUT
def test_r_cons_6_an_idle_active_consumer_gives_way_at_once(cut):
    broker = a_broker("quorum", cut=cut, single_active_consumer=True)
    for label in ("a", "b"):
        consume(broker, label, label)
    consume(broker, "hi", "c", priority=1)
    publish(broker, 1)
    broker.ack("hi/0")

    broker.do(commands.Cancel(label="hi"))
    publish(broker, 1)

    assert broker.deliveries() == ["hi/0 m1", "a/0 m2"]


@CUT
def test_r_cons_6_a_requeue_by_the_one_that_gives_way_is_for_the_next(cut):
    broker = a_broker("quorum", cut=cut, single_active_consumer=True)
    consume(broker, "lo", prefetch=1)
    publish(broker, 1)
    consume(broker, "hi", "b", priority=5)

    broker.reject("lo/0", requeue=True)

    assert broker.deliveries() == ["lo/0 m1", "hi/0 m1"]


@CUT
def test_a_deleted_queue_has_no_active_consumer(cut):
    broker = a_broker(cut=cut, single_active_consumer=True, expires=100)
    consume(broker, "a")
    broker.do(commands.DeleteQueue(queue="q"))
    broker.queue("q", single_active_consumer=True)
    consume(broker, "b")
    publish(broker, 1)

    assert broker.deliveries() == ["b/0 m1"]


@CUT
def test_an_auto_delete_queue_ends_with_its_active_consumer(cut):
    broker = a_broker(cut=cut, single_active_consumer=True, auto_delete=True)
    consume(broker, "a")
    consume(broker, "b", "c1")
    broker.do(commands.Cancel(label="a"))
    assert broker.depth("q") == 0
    broker.do(commands.Cancel(label="b"))
    assert broker.depth("q") is None


LANES = {"lanes": 2}


def refused(what: str) -> Refusal:
    where = "cannot be used in vhost 'v', which has 2 lanes"
    return Refusal(540, f"NOT_IMPLEMENTED - {what} {where}")


def test_r_cons_7_lanes_refuse_what_they_cannot_do_together():
    broker = a_broker(config=LANES)

    assert broker.queue("s", single_active_consumer=True) == refused("x-single-active-consumer")
    assert consume(broker, "a", exclusive=True) == refused("an exclusive consumer")
    assert consume(broker, "a", priority=1) == refused("x-priority")
    assert consume(broker, "a", no_local=True) is None


def test_r_cons_7_a_queue_on_one_lane_can_do_all():
    broker = a_broker(config=LANES, single_lane=True)

    assert broker.queue("s", single_active_consumer=True, single_lane=True) is None
    assert consume(broker, "a", exclusive=True) is None
    broker.do(commands.Cancel(label="a"))
    assert consume(broker, "a", priority=1) is None


def test_r_cons_8_no_gets_from_a_quorum_queue_with_a_single_active_consumer():
    broker = a_broker("quorum", single_active_consumer=True)
    text = (
        "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost 'v'. basic.get "
        "operations are not supported by quorum queues with single active consumer"
    )

    assert broker.refusal(commands.Get(queue="q")) == Refusal(405, text)
