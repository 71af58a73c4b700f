"""Prefetch of channels: `basic.qos` with and without `global` (R-QOS)."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.outbound import DeliveryOut
from tests.builders import Broker
from topology.refusals import Refusal

CUT = pytest.mark.parametrize("cut", [False, True])


def a_broker(*, cut: bool = False, queue: str = "queue", **config: Any) -> Broker:
    broker = Broker(cut=cut, **config)
    getattr(broker, queue)("q")
    return broker


def qos(broker: Broker, prefetch: int, *, everyone: bool = False, channel: str = "c0") -> None:
    command = commands.Qos(prefetch=prefetch, is_global=everyone, channel=channel)
    assert broker.refusal(command) is None


def publish(broker: Broker, count: int, queue: str = "q") -> None:
    for _ in range(count):
        broker.publish("", queue, f"m{len(broker.bodies) + 1}")


def new(broker: Broker, before: int) -> list[str]:
    return broker.deliveries()[before:]


@CUT
@pytest.mark.parametrize("queue", ["queue", "quorum"])
def test_r_qos_1_the_prefetch_of_a_channel_is_that_of_later_consumers(cut, queue):
    broker = a_broker(cut=cut, queue=queue)
    broker.consume("q", "before", channel="c1")
    broker.do(commands.Cancel(label="before"))
    qos(broker, 2)
    broker.consume("q", "a")
    qos(broker, 1)
    broker.consume("q", "b")
    broker.consume("q", "c", prefetch=3)
    broker.consume("q", "other", prefetch=1, channel="c1")

    publish(broker, 8)

    given = broker.deliveries()
    assert [sum(one.startswith(label) for one in given) for label in ("a", "b", "c", "o")] == [
        2,
        1,
        3,
        1,
    ]
    assert broker.depth("q") == 1


@CUT
@pytest.mark.parametrize("prefetch", [0, 7])
@pytest.mark.parametrize("everyone", [False, True])
def test_r_qos_2_a_later_qos_ends_the_common_limit(cut, prefetch, everyone):
    broker = a_broker(cut=cut)
    qos(broker, 1, everyone=True)
    broker.consume("q", "a")
    publish(broker, 9)

    qos(broker, prefetch, everyone=everyone)

    assert len(broker.deliveries()) == (7 if prefetch and everyone else 9)


@CUT
@pytest.mark.parametrize("way", ["reject", "requeue", "nack", "recover", "tag", "range"])
def test_r_qos_3_every_settlement_gives_room(cut, way):
    broker = a_broker(cut=cut)
    qos(broker, 2, everyone=True)
    broker.consume("q", "a")
    publish(broker, 6)
    broker.finish()

    match way:
        case "reject":
            broker.reject("a/0", "a/1")
        case "requeue":
            broker.reject("a/0", "a/1", requeue=True)
        case "nack":
            broker.do(commands.Nack(refs=("a/1",), multiple=True))
        case "recover":
            broker.do(commands.Recover())
        case "tag":
            broker.do(commands.Settle(tag=2, multiple=True))
        case "range":
            broker.do(commands.Settle(tag=1, last=2))

    expected = ["m1", "m2"] if way in {"requeue", "recover"} else ["m3", "m4"]
    assert [one.partition(" ")[2] for one in new(broker, 2)] == expected


@CUT
def test_r_qos_3_settling_what_was_in_a_deleted_queue_gives_room(cut):
    broker = a_broker(cut=cut)
    broker.queue("gone")
    qos(broker, 3, everyone=True)
    broker.consume("gone", "g")
    broker.consume("q", "a")
    publish(broker, 3, "gone")
    publish(broker, 3)
    broker.do(commands.DeleteQueue(queue="gone"))

    broker.ack("g/0")
    assert new(broker, 3) == ["a/0 m4"]
    broker.ack("g/1")
    assert new(broker, 4) == ["a/1 m5"]
    broker.do(commands.Settle(tag=3))
    assert new(broker, 5) == ["a/2 m6"]


@CUT
def test_r_qos_3_recover_of_nothing_but_messages_of_a_deleted_queue_gives_room(cut):
    broker = a_broker(cut=cut)
    broker.queue("gone")
    qos(broker, 1, everyone=True)
    broker.consume("gone", "g")
    broker.consume("q", "a")
    publish(broker, 1, "gone")
    publish(broker, 1)
    broker.do(commands.DeleteQueue(queue="gone"))

    broker.do(commands.Recover())

    assert new(broker, 1) == ["a/0 m2"]


@CUT
def test_r_qos_5_quorum_queues_know_no_common_limit(cut):
    broker = a_broker(cut=cut, queue="quorum", vhost="v")
    broker.consume("q", "a")
    qos(broker, 1, everyone=True)
    publish(broker, 3)

    text = "NOT_IMPLEMENTED - queue 'q' in vhost 'v' does not support global qos"
    assert broker.deliveries() == ["a/0 m1", "a/1 m2", "a/2 m3"]
    assert broker.consume("q", "b") == Refusal(540, text)


@CUT
def test_r_qos_5_the_count_may_fall_below_nothing(cut):
    broker = a_broker(cut=cut, queue="quorum")
    broker.queue("r")
    broker.consume("q", "a")
    qos(broker, 2, everyone=True)
    broker.consume("r", "b")
    publish(broker, 1, "r")
    publish(broker, 3)
    broker.do(commands.Ack(refs=("a/2",), multiple=True))  # four, although one was counted

    publish(broker, 9, "r")

    assert len([one for one in broker.deliveries() if one.startswith("b/")]) == 6


@CUT
def test_r_qos_6_each_lane_has_its_share(cut):
    broker = a_broker(cut=cut, lanes=2, lane=1)
    qos(broker, 5, everyone=True)
    broker.consume("q", "a")

    publish(broker, 5)

    assert len(broker.deliveries()) == 2


def test_immediate_asks_for_a_consumer_with_room():
    broker = a_broker()
    broker.consume("q", "a", prefetch=1)
    publish(broker, 1)

    out = broker.publish("", "q", "m2", immediate=True)

    assert not any(isinstance(one, DeliveryOut) for one in out)
    assert broker.depth("q") == 0


def test_a_known_tag_is_refused_before_anything_else():
    broker = a_broker()
    broker.consume("q", "a")

    refusal = broker.consume("none", "a")

    assert refusal == Refusal(530, "NOT_ALLOWED - attempt to reuse consumer tag 'a'")


def test_a_consumer_is_counted_as_waiting_only_with_a_place_in_line():
    broker = a_broker()
    broker.consume("q", "a", prefetch=1)
    publish(broker, 2)

    overview = broker.shard.overview().queues["q"]

    assert (overview.consumers, overview.waiting) == (1, 0)


@CUT
@pytest.mark.parametrize("way", ["ack", "requeue", "reject", "tag"])
def test_r_qos_3_consumers_of_a_common_limit_take_turns(cut, way):
    broker = a_broker(cut=cut)
    qos(broker, 1, everyone=True)
    for label in "abc":
        broker.consume("q", label)
    publish(broker, 9)

    for number in range(6):
        ref = broker.deliveries()[-1].partition(" ")[0]
        match way:
            case "ack":
                broker.ack(ref)
            case "tag":
                broker.do(commands.Settle(tag=number + 1))
            case _:
                broker.reject(ref, requeue=way == "requeue")

    assert [one[0] for one in broker.deliveries()] == list("abcabca")


def test_r_qos_3_queues_of_a_common_limit_take_turns():
    broker = a_broker()
    qos(broker, 1, everyone=True)
    for queue in ("r", "s"):
        broker.queue(queue)
    for queue in ("q", "r", "s"):
        broker.consume(queue, queue)
        publish(broker, 9, queue)

    for _ in range(8):
        broker.ack(broker.deliveries()[-1].partition(" ")[0])

    assert [one[0] for one in broker.deliveries()[-6:]] == list("sqrsqr")


def test_r_qos_3_all_queues_are_served_that_the_limit_held_back():
    broker = a_broker()
    broker.queue("r")
    qos(broker, 1, everyone=True)
    broker.consume("q", "a")
    broker.consume("r", "b")
    publish(broker, 3)
    publish(broker, 2, "r")

    qos(broker, 0, everyone=True)

    assert new(broker, 1) == ["a/1 m2", "a/2 m3", "b/0 m4", "b/1 m5"]


@pytest.mark.parametrize("lifted", [0, 5])
def test_consumers_that_stand_by_do_not_keep_a_lifted_limit_busy(lifted):
    broker = a_broker()
    broker.queue("single", single_active_consumer=True)
    qos(broker, 1, everyone=True)
    for label in ("a", "b", "c"):
        broker.consume("single", label)
    broker.consume("q", "d")
    publish(broker, 2, "single")
    publish(broker, 2)

    qos(broker, lifted, everyone=True)

    assert broker.deliveries() == ["a/0 m1", "a/1 m2", "d/0 m3", "d/1 m4"]


def test_immediate_does_not_overtake_ready_messages():
    broker = a_broker()
    publish(broker, 1)

    broker.publish("", "q", "m2", immediate=True)

    assert broker.drain("q") == ["m1"]


@pytest.mark.parametrize(("messages", "given"), [(9, 6), (3, 3)])
def test_acks_of_a_run_skip_a_delivery_that_was_settled(messages, given):
    broker = a_broker()
    broker.consume("q", "a", prefetch=3)
    publish(broker, messages)
    broker.ack("a/1")

    answer = broker.answer(commands.Ack(refs=("a/0", "a/1", "a/2")))

    assert answer == {"missing": ["a/1"]}
    assert len(broker.deliveries()) == given


def test_automatic_acks_do_not_use_up_the_limit_of_a_channel():
    broker = Broker()
    broker.queue("q")
    qos(broker, 1, everyone=True)
    broker.consume("q", "c", auto_ack=True)
    for number in range(3):
        broker.publish("", "q", f"m{number}")

    assert broker.deliveries() == ["c/0 m0", "c/1 m1", "c/2 m2"]
