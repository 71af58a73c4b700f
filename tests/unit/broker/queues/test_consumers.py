"""Deliveries to consumers: round robin, prefetch, direct delivery, and their channel."""

from collections import deque

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.outbound import CancelOut, DeliveryOut
from tests.builders import Broker
from topology.refusals import Refusal

CUT = pytest.mark.parametrize("cut", [False, True])


@CUT
def test_a_consumer_at_its_prefetch_limit_is_skipped_until_it_has_room(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.consume("q", "a", prefetch=1)
    broker.consume("q", "b", prefetch=2)
    for number in range(5):
        broker.publish("", "q", f"m{number}")

    broker.ack("a/0")
    broker.ack("b/1")

    assert broker.deliveries() == ["a/0 m0", "b/0 m1", "b/1 m2", "a/1 m3", "b/2 m4"]


@CUT
def test_prefetch_does_not_limit_a_consumer_with_automatic_ack(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.consume("q", "a", prefetch=1, auto_ack=True)
    for number in range(3):
        broker.publish("", "q", f"m{number}")

    assert broker.deliveries() == ["a/0 m0", "a/1 m1", "a/2 m2"]
    assert broker.story()[1] == "m0 consumed in q"


@CUT
def test_a_new_consumer_receives_the_ready_messages(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    for number in range(3):
        broker.publish("", "q", f"m{number}")

    broker.consume("q", "a", prefetch=2)

    assert broker.deliveries() == ["a/0 m0", "a/1 m1"]


@CUT
def test_a_cancelled_consumer_keeps_its_deliveries_and_gets_no_more(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.consume("q", "a", prefetch=1)
    broker.publish("", "q", "m1")
    broker.publish("", "q", "m2")

    broker.do(commands.Cancel(label="a"))
    broker.ack("a/0")

    assert broker.story() == [
        "m1 enqueued in q",
        "m1 delivered in q",
        "m2 enqueued in q",
        "m1 acked in q",
    ]


@CUT
def test_a_consumers_label_can_be_reused_only_after_it_is_cancelled(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.consume("q", "a", channel="c1")

    refused = broker.consume("q", "a", channel="c1")  # which closes c1
    again = broker.consume("q", "a", channel="c1")
    elsewhere = broker.consume("q", "a", channel="c2")

    assert refused == Refusal(530, "NOT_ALLOWED - attempt to reuse consumer tag 'a'")
    assert (elsewhere, again) == (None, None)


@CUT
def test_cancelling_without_a_channel_ends_the_newest_consumer_of_that_label(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.consume("q", "a", channel="c1")
    broker.consume("q", "a", channel="c2")

    for _ in range(3):
        broker.do(commands.Cancel(label="a"))

    names = [detail["name"] for _, detail in broker.of_kind(Kind.CHANNEL)[2:]]
    assert names == ["c2", "c1"]


def test_a_user_cannot_cancel_the_consumer_of_another_user():
    broker = Broker()
    broker.queue("q")
    broker.consume("q", "a", user="ann")

    broker.do(commands.Cancel(label="a"), user="bob")

    assert len(broker.shard.state.queues.named("q").line.consumers) == 1


@CUT
def test_a_delivery_and_its_event_name_the_channel(cut):
    """The actor of a delivery is that of the consumer, whoever published."""
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.consume("q", "a", user="ann", channel="c1")
    broker.consume("q", "b", user="bob", channel="c2")
    for body in ("m1", "m2"):
        broker.publish("", "q", body, user="eve", channel="pub")

    actors = [
        (event.kind.name, event.user, event.channel)
        for event in broker.everything()
        if event.copy is not None
    ]

    assert actors == [
        ("ENQUEUED", "eve", "pub"),
        ("DELIVERED", "ann", "c1"),
        ("ENQUEUED", "eve", "pub"),
        ("DELIVERED", "bob", "c2"),
    ]
    receivers = [out.actor for out in broker.outbound if isinstance(out, DeliveryOut)]
    assert [(actor.user, actor.channel) for actor in receivers] == [("ann", "c1"), ("bob", "c2")]


def test_events_caused_by_time_have_no_actor():
    broker = Broker()
    broker.queue("q", message_ttl=100)
    broker.publish("", "q", "m1", user="eve", channel="pub")

    broker.at(100)

    last = broker.everything()[-1]
    assert (last.kind, last.user, last.channel) == (Kind.DIED, None, "")


@CUT
def test_r_queue_6_each_get_is_followed_by_its_consequences(cut):
    broker = Broker(cut=cut)
    broker.queue("q", dead_letter_exchange="amq.fanout")
    broker.queue("dead")
    broker.bind("amq.fanout", "dead")
    broker.publish("", "q", "m1")
    broker.publish("", "q", "m2", expiration="0")
    broker.publish("", "q", "m3")
    broker.story()

    broker.get("q", count=2)

    assert broker.story() == [
        "m1 delivered in q",
        "m2 died in q, expired, to dead",
        "m2 enqueued in dead",
        "m3 delivered in q",
    ]


@CUT
def test_r_set_4_recover_requeues_all_deliveries_of_the_channel(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    for number in range(3):
        broker.publish("", "q", f"m{number}")
    broker.get("q", "g", count=2, channel="c1")
    broker.get("q", "h", channel="c2")

    answer = broker.answer(commands.Recover(channel="c1"))

    assert answer == {"requeued": 2}
    assert broker.answer(commands.Recover(channel="none")) == {"requeued": 0}
    assert broker.drain("q") == ["m0", "m1"]


@CUT
def test_recover_redelivers_to_consumers_of_the_same_channel(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.consume("q", "a", prefetch=1)
    broker.publish("", "q", "m0")

    broker.do(commands.Recover())

    assert broker.deliveries() == ["a/0 m0", "a/1 m0"]


def test_closing_a_channel_that_is_not_open_is_no_error():
    broker = Broker()

    assert broker.answer(commands.CloseChannel(channel="none")) == {}


def test_a_page_of_deliveries_is_read_when_one_of_them_is_settled():
    """Deliveries are stored in pages by number, and can be settled in any order."""
    broker = Broker()
    broker.queue("q")
    bodies = [f"m{number}" for number in range(2_500)]
    for body in bodies:
        broker.publish("", "q", body)
    broker.get("q", "g", count=2_500)
    broker.finish()

    broker.ack("g/2400", "g/10", "g/1500")
    broker.do(commands.Nack(refs=("g/1100",), multiple=True))
    broker.finish()
    broker.do(commands.Recover())

    settled = {"m1500", "m2400"}
    assert broker.drain("q") == [body for body in bodies[1_101:] if body not in settled]


@CUT
def test_settling_many_deliveries_serves_a_waiting_consumer_once_per_turn(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.queue("other")
    broker.consume("q", "a", prefetch=9)
    for number in (0, 1):
        broker.publish("", "q", f"m{number}")
    broker.publish("", "other", "got")
    broker.get("other", "g")
    broker.ack("g/0", multiple=True)
    broker.consume("q", "b")
    for number in (2, 3, 4, 5):
        broker.publish("", "q", f"m{number}")

    assert broker.deliveries() == [
        *("a/0 m0", "a/1 m1", "g/0 got"),
        *("a/2 m2", "b/0 m3", "a/3 m4", "b/1 m5"),
    ]


class CountedLine(deque[tuple[int, int]]):
    """A line of waiting consumers that counts how often it is searched."""

    searches = 0

    def __contains__(self, key: object) -> bool:
        self.searches += 1
        return super().__contains__(key)


def test_a_settlement_does_not_search_the_line_of_waiting_consumers():
    """R-QUEUE-2; `b` has room all the time, `a` and `c` rejoin the line."""
    broker = Broker()
    broker.queue("q")
    for label, prefetch in (("a", 1), ("b", 2), ("c", 1)):
        broker.consume("q", label, prefetch=prefetch)
        broker.publish("", "q", f"m{label}")
    broker.publish("", "q", "m")
    queue = broker.shard.state.queues.named("q")
    line = queue.line.waiting = CountedLine(queue.line.waiting)

    broker.ack("a/0", "b/0")
    broker.reject("c/0", requeue=True)

    assert (queue.line.waiting is line, len(line), line.searches) == (True, 3, 0)


@CUT
def test_a_settlement_never_settles_a_delivery_that_it_causes(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.consume("q", "a", prefetch=1)
    broker.publish("", "q", "m")
    broker.reject("a/0", "a/1", "a/2", requeue=True)

    assert broker.deliveries() == ["a/0 m", "a/1 m"]
    assert broker.of_kind(Kind.SETTLE_MISSED) == [("", {"ref": "a/1"}), ("", {"ref": "a/2"})]


@CUT
def test_only_consumers_of_a_deleted_queue_get_a_cancel_notification(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.queue("other")
    broker.consume("q", "mine", channel="c7")
    broker.consume("other", "asked for it")

    outs = [
        *broker.do(commands.Cancel(label="asked for it")),
        *broker.do(commands.DeleteQueue(queue="q")),
    ]

    sent = [out for out in outs if isinstance(out, CancelOut)]
    assert [(out.actor.channel, out.consumer, out.queue) for out in sent] == [("c7", "mine", "q")]


def test_r_pri_4_what_is_late_in_a_priority_queue_dies_when_a_consumer_is_cancelled():
    broker = Broker()
    broker.queue("dead")
    broker.queue("q", max_priority=5, dead_letter_exchange="", dead_letter_routing_key="dead")
    for label in ("a", "b"):
        broker.publish("", "q", f"held by {label}")
        broker.consume("q", label, prefetch=1)
    broker.publish("", "q", "waits")
    broker.publish("", "q", "late", priority=5, expiration="0")
    broker.at(10)
    before = broker.depth("q")

    broker.do(commands.Cancel(label="a"))

    assert before == 2
    assert broker.drain("dead") == ["late"]
    assert broker.drain("q") == ["waits"]
