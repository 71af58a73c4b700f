"""Queue expiry, auto-delete, purge, deletion with consumers, and policies that change."""

import pytest

from streaming.broker import commands
from streaming.broker.channels.deliveries import Deliveries
from streaming.broker.events import Kind
from streaming.broker.message import NEVER
from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])


@CUT
def test_r_qexp_1_an_unused_queue_is_deleted_with_its_messages_without_dead_letters(cut):
    broker = Broker(cut=cut)
    broker.queue("q", expires=1_000, dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.at(500).publish("", "q", "m1")

    broker.at(999)
    before = broker.depth("q")
    broker.at(1_000)

    assert before == 1
    assert broker.depth("q") is None
    assert broker.story() == ["m1 enqueued in q", "m1 deleted in q"]
    assert broker.of_kind(Kind.TOPOLOGY)[-1] == (
        "",
        {"what": "queue_deleted", "name": "q", "cause": "expired", "ready": 1},
    )


@CUT
def test_r_qexp_2_a_get_on_an_empty_queue_counts_as_a_use(cut):
    broker = Broker(cut=cut)
    broker.queue("q", expires=1_000)

    broker.at(900).get("q")
    broker.at(1_899)
    before = broker.depth("q")
    broker.at(1_900)

    assert (before, broker.depth("q")) == (0, None)


@CUT
def test_r_qexp_2_redeclaring_counts_as_a_use(cut):
    broker = Broker(cut=cut)
    broker.queue("q", expires=1_000)

    broker.at(900).queue("q", expires=1_000)
    broker.at(1_899)
    before = broker.depth("q")
    broker.at(1_900)

    assert (before, broker.depth("q")) == (0, None)


@CUT
def test_r_qexp_3_a_queue_with_a_consumer_does_not_expire(cut):
    broker = Broker(cut=cut)
    broker.queue("q", expires=1_000)
    broker.consume("q", "one")
    broker.consume("q", "two")
    broker.at(5_000).do(commands.Cancel(label="one"))

    broker.at(6_500)
    with_one = broker.depth("q")
    broker.do(commands.Cancel(label="two"))
    broker.at(7_499)
    at_last = broker.depth("q")
    broker.at(7_500)

    assert (with_one, at_last, broker.depth("q")) == (0, 0, None)


@CUT
def test_an_expires_set_by_policy_starts_when_the_policy_is_set(cut):
    """R-POL-8: a queue that has long been unused is not deleted at once."""
    broker = Broker(cut=cut)
    broker.queue("q")

    broker.at(10_000).policy("p", "q", {"expires": 1_000})
    broker.at(10_999)
    before = broker.depth("q")
    broker.at(11_000)

    assert (before, broker.depth("q")) == (0, None)


@CUT
def test_a_queue_whose_expires_is_removed_does_not_expire(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.policy("p", "q", {"expires": 1_000})

    broker.do(commands.ClearPolicy(name="p"))
    broker.at(100_000)

    assert broker.depth("q") == 0
    assert broker.finish().next_deadline_ms == NEVER


@CUT
@pytest.mark.parametrize("how", ["cancel", "close"])
def test_r_gone_3_an_auto_delete_queue_is_deleted_with_its_last_consumer(cut, how):
    broker = Broker(cut=cut)
    broker.queue("q", auto_delete=True)
    broker.publish("", "q", "m1")
    broker.publish("", "q", "m2")
    broker.consume("q", "one", prefetch=1, channel="c1")
    broker.consume("q", "two", channel="c2", prefetch=1)
    broker.do(commands.Cancel(label="two"))
    with_one = broker.depth("q")
    broker.story()

    if how == "cancel":
        broker.do(commands.Cancel(label="one"))
    else:
        broker.close_channel("c1")

    assert with_one == 0
    assert broker.depth("q") is None
    assert broker.story() == ["m1 deleted in q", "m2 deleted in q"]


@CUT
def test_an_auto_delete_queue_that_never_had_a_consumer_stays(cut):
    broker = Broker(cut=cut)
    broker.queue("q", auto_delete=True)
    broker.publish("", "q", "m1")
    broker.get("q", auto_ack=True)
    broker.close_channel("c0")

    assert broker.depth("q") == 0


@CUT
def test_deleting_a_queue_cancels_its_consumers_and_drops_its_deliveries(cut):
    """R-GONE-2; the channels keep their deliveries of other queues."""
    broker = Broker(cut=cut)
    for name in ("q", "r"):
        broker.queue(name)
        broker.publish("", name, f"{name}1")
        broker.publish("", name, f"{name}2")
    broker.consume("q", "c", prefetch=1)
    broker.get("q", "g", channel="c1")
    broker.get("r", "h", channel="c1")
    broker.story()

    broker.do(commands.DeleteQueue(queue="q"))
    late = broker.answer(commands.Ack(refs=("c/0", "g/0", "h/0")))

    assert broker.story() == ["q1 deleted in q", "q2 deleted in q", "r1 acked in r"]
    assert late == {"missing": ["c/0", "g/0"]}
    assert broker.of_kind(Kind.CHANNEL)[-1] == (
        "q",
        {"what": "consumer_cancelled", "consumer": "c", "name": "c0", "user": None},
    )


@CUT
def test_a_queue_declared_after_its_deletion_is_empty_and_unbound(cut):
    """R-ROUTE-11."""
    broker = Broker(cut=cut)
    for _ in range(2):
        broker.queue("q")
        broker.publish("", "q", "m1")
        broker.get("q")
        broker.publish("", "q", "m2")
        ready = broker.answer(commands.DeleteQueue(queue="q"))
        assert ready == {"deleted_ready": 1}
    broker.queue("q")

    assert broker.depth("q") == 0


@CUT
def test_r_gone_1_a_purge_removes_only_ready_messages(cut):
    broker = Broker(cut=cut)
    broker.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=100)
    broker.queue("dead")
    for number in range(3):
        broker.publish("", "q", f"m{number}")
    broker.get("q", "g")
    broker.story()

    purged = broker.answer(commands.Purge(queue="q"))
    broker.at(200)
    broker.reject("g/0", requeue=True)

    assert purged == {"purged": 2}
    assert broker.story() == [
        "m1 purged in q",
        "m2 purged in q",
        "m0 requeued in q",
        "m0 died in q, expired, to dead",
        "m0 enqueued in dead",
    ]


@CUT
def test_r_pol_8_a_new_message_ttl_applies_only_to_later_messages(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.publish("", "q", "m1")
    broker.policy("p", "q", {"message-ttl": 100})
    broker.publish("", "q", "m2")

    broker.at(200)
    blocked = broker.depth("q")
    broker.get("q", auto_ack=True)

    assert (blocked, broker.depth("q")) == (2, 0)
    assert broker.story()[2:] == [
        "m1 consumed in q",
        "m2 died in q, expired, to nowhere: no_exchange",
    ]


@CUT
def test_r_pol_8_a_new_dead_letter_exchange_applies_to_waiting_messages(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.queue("dead")
    broker.publish("", "q", "m1", expiration="100")

    broker.policy("p", "q", {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"})
    broker.at(100)

    assert broker.drain("dead") == ["m1"]


@CUT
def test_a_new_delivery_limit_of_a_quorum_queue_applies_from_the_next_requeue(cut):
    """R-DLV-2."""
    broker = Broker(cut=cut)
    broker.quorum("q")
    broker.publish("", "q", "m1")
    broker.get("q", "g")
    broker.reject("g/0", requeue=True)
    broker.policy("p", "q", {"delivery-limit": 1, "max-length": 5})
    broker.get("q", "g")
    broker.story()

    broker.reject("g/0", requeue=True)

    assert broker.story() == ["m1 died in q, delivery_limit, to nowhere: no_exchange"]


@CUT
def test_r_ae_5_an_alternate_exchange_by_policy_applies_from_the_next_publish(cut):
    broker = Broker(cut=cut)
    broker.exchange("x")
    broker.queue("spare")
    broker.bind("amq.fanout", "spare")
    broker.publish("x", "k", "m1")
    broker.policy("p", "^x$", {"alternate-exchange": "amq.fanout"})
    broker.publish("x", "k", "m2")
    broker.do(commands.ClearPolicy(name="p"))
    broker.publish("x", "k", "m3")

    assert broker.story() == ["m1 unroutable", "m2 enqueued in spare", "m3 unroutable"]


def test_the_depth_of_a_queue_is_its_ready_messages():
    broker = Broker()
    broker.queue("q")
    for body in ("m1", "m2", "m3"):
        broker.publish("", "q", body)
    broker.get("q")

    assert broker.answer(commands.Depth(queue="q")) == {"ready": 2}


def test_a_deleted_queue_looks_for_its_deliveries_with_its_own_consumers(monkeypatch):
    """A connection with many of both would take forever to close."""
    looked_at = []
    take = Deliveries.take_of_queue

    def noted(deliveries, queue_number):
        looked_at.append(deliveries)
        return take(deliveries, queue_number)

    monkeypatch.setattr(Deliveries, "take_of_queue", noted)
    broker = Broker()
    for name in ("q", "r"):
        broker.queue(name, auto_delete=True)
        broker.consume(name, f"of {name}")
        broker.publish("", name, name)
    channel = broker.shard.state.channels.get(None, "c0")
    assert channel is not None
    labels = {one.deliveries: one.label for one in channel.consumers.values()}

    broker.close_channel()

    assert broker.depth("q") is None
    assert [labels[each] for each in looked_at] == ["", "of q", "", "of r"]
