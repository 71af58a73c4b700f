"""A vhost of several lanes: what goes where, and how the lanes answer together (D2)."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.commands import (
    Ack,
    Check,
    CheckedPublish,
    Command,
    Consume,
    Get,
    Nack,
    Reject,
)
from streaming.broker.events import Kind
from streaming.broker.lanes import (
    Answering,
    LanePart,
    lane_of,
    lane_of_key,
    merged,
    on_each_lane,
    on_lane,
    share,
)
from streaming.broker.message import CONFIRM, IMMEDIATE, MANDATORY
from streaming.broker.outbound import CancelOut, PublishErrorOut, ReturnOut
from tests.builders import Broker, a_queue
from tests.laned_vhost import LanedVhost
from topology.declarations import Binding, Exchange, Policy, Queue
from topology.refusals import Refusal
from topology.values import AmqpValue

SINGLE = Queue("single", arguments={"x-single-lane": True})


def four_lanes(*queues: Queue, **config: object) -> LanedVhost:
    vhost = LanedVhost(lanes=4, **config)
    for queue in queues or (Queue("q"),):
        assert not isinstance(vhost.do(commands.DeclareQueue(queue=queue)), Refusal)
    return vhost


def filled(count: int, *queues: Queue) -> LanedVhost:
    """Messages m0, m1, ... on the lanes 0, 1, ... in turn."""
    vhost = four_lanes(*queues)
    for number in range(count):
        vhost.publish("", (queues or (Queue("q"),))[0].name, f"m{number}", lane=number % 4)
    return vhost


def result(vhost: LanedVhost, command: Command) -> dict[str, Any]:
    """The answer to a command that is not refused."""
    answer = vhost.do(command)
    assert not isinstance(answer, Refusal), answer
    return answer


# -- names and shares


@pytest.mark.parametrize("name", ["1.1.0", "label/0", "worker@3/0", "a@b/1"])
def test_a_delivery_has_the_same_name_on_the_home_lane(name):
    assert on_lane(name, 0) == name
    assert lane_of(name, 4) == (0, name)
    assert lane_of(on_lane(name, 3), 4) == (3, name)


@pytest.mark.parametrize("name", ["1.1.0@4", "1.1.0@0", "1.1.0@", "1.1.0@x", "1.1.0@00001", "@²"])
def test_a_name_of_no_other_lane_is_looked_up_on_the_home_lane(name):
    assert lane_of(name, 4) == (0, name)


def test_an_automatic_ack_has_no_name_on_any_lane():
    assert on_lane("", 3) == ""


@pytest.mark.parametrize(
    ("number", "shares"), [(0, [0] * 4), (1, [1] * 4), (6, [2, 2, 1, 1]), (100, [25] * 4)]
)
def test_a_number_is_divided_with_at_least_1_a_lane(number, shares):
    assert [share(number, lane, 4) for lane in range(4)] == shares


def test_a_key_has_one_lane():
    assert lane_of_key("orders.eu", 4) == lane_of_key("orders.eu", 4) < 4
    assert {lane_of_key(f"k{number}", 4) for number in range(50)} == {0, 1, 2, 3}


# -- consumers


def test_a_prefetch_is_divided_among_the_lanes():
    vhost = filled(40)

    vhost.do(Consume(queue="q", label="c", prefetch=6))

    assert [each.lane for each in vhost.delivered] == [0, 0, 1, 1, 2, 3]
    assert [each.name for each in vhost.delivered][2:4] == ["1.1.0@1", "1.1.1@1"]
    assert [each.ref for each in vhost.delivered][4:] == ["c/0@2", "c/0@3"]


def test_a_consumer_of_a_single_lane_has_the_whole_prefetch_there():
    vhost = filled(40, SINGLE)

    vhost.do(Consume(queue="single", label="c", prefetch=6))

    assert [(each.lane, each.body) for each in vhost.delivered] == [
        (0, f"m{number}") for number in range(6)
    ]


def test_a_prefetch_without_limit_has_none_on_any_lane():
    vhost = filled(40)

    vhost.do(Consume(queue="q", label="c"))

    assert len(vhost.delivered) == 40


def test_each_delivery_is_settled_on_its_lane():
    vhost = filled(8)
    vhost.do(Consume(queue="q", label="c"))

    answer = vhost.do(Ack(refs=("1.1.0@1", "c/1@3", "1.1.0", "1.1.7@2"), channel="c0"))
    again = vhost.do(Reject(refs=("1.1.0@1",), channel="c0"))

    assert answer == {"missing": ["1.1.7@2"]}
    assert again == {"missing": ["1.1.0@1"]}
    assert vhost.happened(Kind.ACKED) == [
        (0, "acked", "q", "m0"),
        (1, "acked", "q", "m1"),
        (3, "acked", "q", "m7"),
    ]


def test_multiple_settles_the_earlier_ones_on_the_lanes_that_are_named():
    vhost = filled(12)
    vhost.do(Consume(queue="q", label="c"))

    assert vhost.do(Nack(refs=("1.1.1@2", "1.1.0@3"), multiple=True, channel="c0")) == {}

    lost = [(lane, body) for lane, _kind, _queue, body in vhost.happened(Kind.DIED)]
    assert lost == [(2, "m2"), (2, "m6"), (3, "m3")]


def test_a_settlement_of_nothing_is_answered_by_the_home_lane():
    assert four_lanes().do(Ack(refs=(), channel="c0")) == {}


def test_recover_requeues_on_all_lanes_and_counts_them():
    vhost = filled(8)
    vhost.do(Get(queue="q", count=2, lane=1, channel="c0"))
    vhost.do(Get(queue="q", count=1, lane=3, channel="c0"))

    assert vhost.do(commands.Recover(channel="c0")) == {"requeued": 3}
    assert vhost.depths("q") == [2, 2, 2, 2]


def test_a_lease_is_renewed_on_all_lanes_by_settlements_on_one():
    vhost = filled(8)
    vhost.do(commands.OpenChannel(channel="c0", lease_ms=100))
    vhost.do(Consume(queue="q", label="c", channel="c0"))

    vhost.at(90).do(Ack(refs=("1.1.0@1",), channel="c0"))
    vhost.at(180).do(commands.ExportDefinitions(channel="c0"))
    vhost.at(270)

    assert vhost.do(commands.Renew(channel="c0")) == {"open": True, "lease_ms": 100, "number": 1}
    vhost.at(371)
    assert vhost.depths("q") == [2, 1, 2, 2]
    assert vhost.do(commands.Renew(channel="c0")) == {
        "open": False,
        "lease_ms": None,
        "number": None,
    }


def test_a_channel_that_one_lane_has_closed_is_reported_as_closed():
    vhost = four_lanes(consumer_timeout_ms=50)
    vhost.publish("", "q", "m", lane=2)
    vhost.do(Consume(queue="q", label="c", channel="c0"))

    vhost.at(51)

    assert result(vhost, commands.Renew(channel="c0"))["open"] is False


def test_a_cancelled_consumer_gets_nothing_on_any_lane():
    vhost = four_lanes()
    vhost.do(Consume(queue="q", label="c", channel="c0"))
    vhost.do(commands.Cancel(label="c", channel="c0"))

    vhost.publish("", "q", "m", lane=3)

    assert vhost.delivered == []


# -- gets


def test_a_get_begins_on_the_lane_of_its_record():
    vhost = filled(4)

    answer = vhost.do(Get(queue="q", count=2, channel="c0"), turn=2)

    assert answer == {"delivered": 1, "lane": 2, "lanes": 4}
    assert [each.body for each in vhost.delivered] == ["m2"]


def test_a_get_may_name_its_lane():
    vhost = filled(4)

    answer = vhost.do(Get(queue="q", lane=3, label="g", channel="c0"), turn=2)

    assert answer == {"delivered": 1, "lane": 3, "lanes": 4}
    assert [each.ref for each in vhost.delivered] == ["g/0@3"]


def test_a_get_from_a_single_lane_goes_there_and_nowhere_else():
    vhost = filled(4, SINGLE)

    answer = vhost.do(Get(queue="single", count=9, channel="c0"), turn=2)

    assert answer == {"delivered": 4, "lane": 0, "lanes": 1}


def test_a_get_of_one_message_looks_on_one_lane():
    vhost = filled(4)

    assert vhost.do(Get(queue="q", message="0/2/2", lane=2, channel="c0")) == {
        "delivered": 1,
        "lane": 2,
        "lanes": 4,
    }
    assert result(vhost, Get(queue="q", message="0/1/1", lane=2, channel="c0"))["delivered"] == 0


# -- queues


def test_counts_are_added_up():
    vhost = filled(6)

    assert vhost.do(commands.Depth(queue="q")) == {"ready": 6}
    declared = vhost.do(commands.DeclareQueue(queue=Queue("q")))
    assert declared == {"queue": "q", "ready": 6, "consumers": 0}
    assert vhost.do(commands.Purge(queue="q")) == {"purged": 6}
    vhost.publish("", "q", "m", lane=3)
    assert vhost.do(commands.DeleteQueue(queue="q")) == {"deleted_ready": 1}


def test_a_refusal_is_answered_once():
    vhost = four_lanes()

    refusal = vhost.do(Consume(queue="none", label="c", channel="c0"))

    assert isinstance(refusal, Refusal)
    assert refusal.code == 404


def test_a_queue_cannot_be_deleted_if_it_is_empty():
    vhost = four_lanes()

    refusal = vhost.do(commands.DeleteQueue(queue="q", if_empty=True))

    text = "NOT_IMPLEMENTED - if-empty cannot be used in vhost '/', which has 4 lanes"
    assert refusal == Refusal(540, text)


def test_the_broker_chooses_one_name_for_all_lanes():
    vhost = LanedVhost(lanes=4)

    answer = result(vhost, commands.DeclareQueue(queue=Queue("")))

    assert answer["queue"] == "amq.gen-1-0-0"
    assert {tuple(shard.vhost.queues) for shard in vhost.shards} == {("amq.gen-1-0-0",)}


def test_an_unused_queue_expires_on_all_lanes():
    vhost = four_lanes(a_queue("q", expires=100))
    vhost.at(90).do(Get(queue="q", lane=1, channel="c0"))

    vhost.at(180)
    assert [len(shard.vhost.queues) for shard in vhost.shards] == [1, 1, 1, 1]
    vhost.at(191)
    assert [len(shard.vhost.queues) for shard in vhost.shards] == [0, 0, 0, 0]


def test_an_auto_delete_queue_goes_with_its_last_consumer_and_clients_of_all_lanes_know():
    vhost = four_lanes(Queue("q", auto_delete=True))
    vhost.do(Consume(queue="q", label="c", channel="c0"))

    vhost.do(commands.CloseChannel(channel="c0"))

    assert [len(shard.vhost.queues) for shard in vhost.shards] == [0, 0, 0, 0]


def test_an_exclusive_queue_belongs_to_its_channel_on_all_lanes():
    vhost = LanedVhost(lanes=4)
    exclusive = Queue("mine", exclusive=True)
    vhost.do(commands.DeclareQueue(queue=exclusive, channel="c0"))

    refusal = vhost.do(commands.Depth(queue="mine", channel="c1"))
    assert isinstance(refusal, Refusal)
    assert refusal.code == 405
    vhost.do(commands.CloseChannel(channel="c0"))

    assert [len(shard.vhost.queues) for shard in vhost.shards] == [0, 0, 0, 0]


def test_a_deleted_queue_cancels_its_consumer_on_every_lane():
    vhost = four_lanes()
    vhost.do(Consume(queue="q", label="c", channel="c0"))

    vhost.do(commands.DeleteQueue(queue="q"))

    assert [type(each) for each in vhost.told] == [CancelOut] * 4


def test_limits_are_divided_among_the_lanes():
    vhost = four_lanes(a_queue("q", max_length=6, max_length_bytes=100))
    for number in range(40):
        vhost.publish("", "q", "m", lane=number % 4)

    assert vhost.depths("q") == [2, 2, 1, 1]


def test_a_small_limit_leaves_each_lane_a_message():
    vhost = four_lanes(a_queue("q", max_length=2))
    for number in range(40):
        vhost.publish("", "q", "m", lane=number % 4)

    assert vhost.depths("q") == [1, 1, 1, 1]


def test_limits_of_a_policy_are_divided_among_the_lanes():
    broker = Broker(lanes=4)
    broker.queue("q")

    assert broker.policy("p", "q", {"max-length": 4, "message-ttl": 5}) is None
    assert broker.shard.state.queues.named("q").settings.max_length == 1


def test_a_single_lane_has_the_whole_limit():
    queue = Queue("single", arguments={"x-single-lane": True, "x-max-length": 3})
    vhost = filled(40, queue)

    assert vhost.depths("single") == [3, 0, 0, 0]


def test_a_policy_puts_later_messages_on_a_single_lane():
    vhost = filled(4)
    policy = commands.SetPolicy(policy=Policy("p", "q", {"single-lane": True}))
    assert vhost.do(policy) == {}

    vhost.publish("", "q", "m4", lane=3)

    assert vhost.depths("q") == [2, 1, 1, 1]


# -- publishes


def with_fanout(*queues: Queue) -> LanedVhost:
    vhost = four_lanes(*queues)
    vhost.do(commands.DeclareExchange(exchange=Exchange("x", "fanout")))
    for queue in queues:
        vhost.do(commands.Bind(binding=Binding("x", queue.name, "queue", "")))
    return vhost


def test_a_message_for_a_single_lane_and_another_queue_is_on_both_lanes_and_confirmed_once():
    vhost = with_fanout(SINGLE, Queue("q"))

    vhost.publish("x", "", "m0", lane=3)
    vhost.publish("x", "", "m1", lane=0)

    assert vhost.depths("single") == [2, 0, 0, 0]
    assert vhost.depths("q") == [1, 0, 0, 1]
    assert vhost.confirms == [("m0", True), ("m1", True)]


def test_a_message_that_one_lane_refuses_is_not_confirmed():
    full = Queue(
        "single",
        arguments={"x-single-lane": True, "x-max-length": 0, "x-overflow": "reject-publish"},
    )
    vhost = with_fanout(full, Queue("q"))

    vhost.publish("x", "", "m0", lane=3)

    assert vhost.confirms == [("m0", False)]
    assert vhost.depths("q") == [0, 0, 0, 1]


def test_a_message_of_the_lanes_is_confirmed_by_its_own():
    vhost = filled(2)

    assert vhost.confirms == [("m0", True), ("m1", True)]
    assert vhost.depths("q") == [1, 1, 0, 0]


def test_a_message_without_a_queue_is_returned_once_by_the_home_lane():
    vhost = four_lanes()

    vhost.publish("", "none", "m0", lane=2, flags=CONFIRM | MANDATORY)

    assert [type(each) for each in vhost.told] == [ReturnOut]
    assert vhost.confirms == [("m0", True)]


def test_a_refused_publish_is_told_once_and_closes_the_channel_on_its_lanes():
    vhost = four_lanes()
    vhost.do(commands.OpenChannel(channel="pub"))

    vhost.publish("nowhere", "", "m0", lane=2)

    assert [type(each) for each in vhost.told] == [PublishErrorOut]
    assert result(vhost, commands.Renew(channel="pub"))["open"] is False


def test_an_immediate_message_follows_the_alternate_exchange_on_each_lane():
    vhost = LanedVhost(lanes=4)
    vhost.do(commands.DeclareExchange(exchange=Exchange("spare", "fanout")))
    alternate: dict[str, AmqpValue] = {"alternate-exchange": "spare"}
    vhost.do(commands.DeclareExchange(exchange=Exchange("x", "fanout", arguments=alternate)))
    for queue, source in ((Queue("q"), "x"), (Queue("r"), "spare"), (SINGLE, "spare")):
        vhost.do(commands.DeclareQueue(queue=queue))
        vhost.do(commands.Bind(binding=Binding(source, queue.name, "queue", "")))
    for name in ("r", "single"):
        vhost.do(Consume(queue=name, label=name, channel="c0"))

    vhost.publish("x", "", "m0", lane=1, flags=IMMEDIATE)
    vhost.publish("x", "", "m1", lane=0, flags=IMMEDIATE)

    assert [(each.queue, each.lane, each.body) for each in vhost.delivered] == [
        ("r", 1, "m0"),
        ("r", 0, "m1"),
        ("single", 0, "m1"),
    ]


def test_dead_letters_stay_on_their_lane():
    vhost = four_lanes(
        a_queue("q", dead_letter_exchange="", dead_letter_routing_key="single"), SINGLE
    )
    vhost.publish("", "q", "m0", lane=3)
    vhost.do(Get(queue="q", lane=3, label="g", channel="c0"))
    vhost.do(Reject(refs=("g/0@3",), channel="c0"))

    assert vhost.depths("single") == [0, 0, 0, 1]
    vhost.do(Consume(queue="single", label="c", prefetch=1, channel="c0"))
    assert [(each.queue, each.lane) for each in vhost.delivered] == [("q", 3), ("single", 3)]


# -- transactions


def test_a_check_asks_the_lane_of_each_delivery():
    vhost = filled(8)
    vhost.do(Consume(queue="q", label="c", channel="c0"))
    good = Ack(refs=("1.1.0@1", "1.1.1@3"), channel="c0")
    bad = Ack(refs=("1.1.9@3",), channel="c0")

    assert vhost.do(Check(steps=(CheckedPublish(), good))) == {}
    refusal = vhost.do(Check(steps=(good, bad)))
    assert isinstance(refusal, Refusal)
    assert refusal.code == 406
    refusal = vhost.do(Check(steps=(CheckedPublish(exchange="none"), good)))
    assert isinstance(refusal, Refusal)
    assert refusal.code == 404


# -- routing and merging


def test_a_tick_goes_to_its_lane_or_to_all():
    assert [each.lane for each in on_each_lane(commands.Tick(lane=2), "", 0, 4)] == [2]
    assert [each.lane for each in on_each_lane(commands.Tick(), "", 0, 3)] == [0, 1, 2]
    silent = {each.answering for each in on_each_lane(commands.Tick(), "", 0, 3)}
    assert silent == {Answering.SILENT}


def test_what_all_lanes_know_is_answered_by_the_home_lane():
    routed = on_each_lane(commands.OpenChannel(channel="c0"), "c0", 1, 2)

    assert [each.answering for each in routed] == [Answering(0), Answering.SILENT]


def a_part(lane: int, result: dict[str, object], op: str = "ack", code: int = 0) -> LanePart:
    return LanePart(lane, (1, 0, 0), "u", "c0", op, "r", result, code, "text", 10 + lane, 20 + lane)


def test_parts_are_merged_with_the_numbers_of_the_first_lane():
    parts = [
        a_part(2, {"missing": ["b@2"], "x": 1}),
        a_part(0, {}),
        a_part(1, {"missing": ["a@1"]}),
    ]

    answer = merged(parts)

    assert (answer.seq, answer.event_seq) == (10, 20)
    assert answer.result == {"missing": ["a@1", "b@2"], "x": 1}


def test_only_the_home_lane_refuses_but_for_a_check():
    assert merged([a_part(0, {}), a_part(1, {}, code=404)]).refusal is None
    assert merged([a_part(0, {}, "check"), a_part(1, {}, "check", 406)]).code == 406


def test_a_lane_alone_gets_from_itself():
    broker = Broker(lanes=2, lane=1)
    broker.queue("q")
    broker.publish("", "q", "m0")

    assert broker.answer(Get(queue="q", label="g")) == {"delivered": 1, "lane": 1, "lanes": 2}
