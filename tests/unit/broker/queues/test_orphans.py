"""A queue's own alternate exchange (docs/semantics.md section 21), and exclusive queues."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from tests.builders import Broker, a_queue
from topology.declarations import Binding, Queue
from topology.refusals import Refusal

CUT = pytest.mark.parametrize("cut", [False, True])


def a_broker(*, cut: bool = False, queue: str = "work", **arguments: object) -> Broker:
    """`work` has the alternate exchange `alt`, to which the queue `spare` is bound."""
    broker = Broker(cut=cut)
    broker.exchange("alt", "fanout")
    broker.queue("spare")
    broker.bind("alt", "spare")
    broker.queue(queue, alternate_exchange="alt", **arguments)
    return broker


@CUT
def test_r_qpid_1_a_rejected_message_goes_to_the_queues_alternate_exchange(cut):
    broker = a_broker(cut=cut)
    broker.publish("", "work", "m1", headers={"a": 1}, expiration="5000")
    broker.get("work", "g")

    broker.reject("g/0")

    assert broker.story()[2:] == ["m1 rerouted in work, rejected, to spare", "m1 enqueued in spare"]
    (given,) = broker.get("spare")
    envelope = given.copy.envelope
    assert (envelope.exchange, envelope.routing_keys) == ("alt", ("work",))
    assert broker.delivered_headers(given.copy) == {"a": 1}
    assert (envelope.deaths, given.requeue_count) == ((), 0)


@CUT
def test_r_qpid_1_orphans_go_to_the_alternate_exchange_in_queue_order(cut):
    """R-QPID-10; copies acquired by consumers keep their place in this order."""
    broker = a_broker(cut=cut)
    for number in range(4):
        broker.publish("", "work", f"m{number}")
    broker.get("work", "g", count=2)
    broker.reject("g/0", requeue=True)
    broker.story()

    broker.do(commands.DeleteQueue(queue="work"))

    assert broker.story() == [
        *[f"m{number} rerouted in work, orphaned, to spare" for number in range(4)],
        *[f"m{number} enqueued in spare" for number in range(4)],
    ]


@CUT
def test_r_qpid_10_orphans_of_a_priority_queue_leave_in_priority_order(cut):
    broker = a_broker(cut=cut, max_priority=5)
    broker.publish("", "work", "low")
    broker.publish("", "work", "high", priority=9)
    broker.publish("", "work", "mid", priority=3)
    broker.get("work", "g")

    broker.do(commands.DeleteQueue(queue="work"))

    assert [line for line in broker.story() if "enqueued in spare" in line] == [
        "high enqueued in spare",
        "mid enqueued in spare",
        "low enqueued in spare",
    ]


@CUT
def test_r_qpid_10_orphans_of_a_quorum_queue_leave_in_queue_order(cut):
    broker = a_broker(cut=cut, queue_type="quorum")
    for number in range(4):
        broker.publish("", "work", f"m{number}")
    broker.get("work", "g", count=3)
    broker.reject("g/2", "g/1", requeue=True)

    broker.do(commands.DeleteQueue(queue="work"))

    assert broker.drain("spare") == ["m2", "m1", "m0", "m3"]


def test_r_qpid_2_without_an_alternate_exchange_orphans_are_deleted():
    """R-GONE-2."""
    broker = Broker()
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.publish("", "work", "m1")
    broker.publish("", "work", "m2")
    broker.get("work", "g")
    broker.story()

    assert broker.answer(commands.DeleteQueue(queue="work")) == {"deleted_ready": 1}
    assert broker.story() == ["m1 deleted in work", "m2 deleted in work"]


def test_r_qpid_2_a_missing_alternate_exchange_discards_the_orphans():
    broker = Broker()
    broker.queue("work", alternate_exchange="none")
    broker.publish("", "work", "m1")
    broker.get("work", "g")

    broker.reject("g/0")

    assert broker.story()[2:] == ["m1 rerouted in work, rejected, to nowhere: no_exchange"]
    warning = {"queue": "work", "missing_alternate_exchange": "none"}
    assert broker.of_kind(Kind.WARNING) == [("work", warning)]


@pytest.mark.parametrize("levels", [1, 2])
def test_r_qpid_4_the_whole_chain_of_alternate_exchanges_is_tried(levels):
    broker = Broker()
    broker.exchange("third", "fanout")
    broker.exchange("second", "direct", arguments={"alternate-exchange": "third"})
    broker.exchange("first", "direct", arguments={"alternate-exchange": "second"})
    broker.queue("spare")
    broker.bind("third" if levels == 2 else "second", "spare", "work")
    broker.queue("work", alternate_exchange="first")
    broker.publish("", "work", "m1")
    broker.get("work", "g")

    broker.reject("g/0")

    assert broker.story()[2] == "m1 rerouted in work, rejected, to spare"


def test_a_missing_second_alternate_causes_a_warning():
    broker = Broker()
    broker.exchange("first", "direct", arguments={"alternate-exchange": "gone"})
    broker.queue("work", alternate_exchange="first")
    broker.publish("", "work", "m1")
    broker.get("work", "g")

    broker.reject("g/0")

    assert broker.of_kind(Kind.WARNING) == [
        ("", {"exchange": "first", "missing_alternate_exchange": "gone"})
    ]


@CUT
def test_r_qpid_5_a_rerouted_message_is_not_rerouted_again(cut):
    broker = a_broker(cut=cut)
    broker.bind("alt", "work")
    broker.do(commands.Unbind(binding=Binding("alt", "spare")))
    broker.publish("", "work", "m1")
    broker.get("work", "g")
    broker.reject("g/0")
    broker.get("work", "h")

    broker.reject("h/0")

    assert broker.story()[2:] == [
        "m1 rerouted in work, rejected, to work",
        "m1 enqueued in work",
        "m1 delivered in work",
        "m1 rerouted in work, rejected, to nowhere: rerouted_before",
    ]


@pytest.mark.parametrize("by_policy", [False, True])
def test_r_qpid_5_a_queue_can_be_configured_to_reroute_every_time(by_policy):
    broker = Broker()
    if by_policy:
        broker.queue("work", alternate_exchange="amq.fanout")
        broker.policy("again", "^work$", {"queue-reroute-once": False})
    else:
        broker.queue("work", alternate_exchange="amq.fanout", reroute_once=False)
    broker.bind("amq.fanout", "work")
    broker.publish("", "work", "m1")
    for label in ("g", "h"):
        broker.get("work", label)
        broker.reject(f"{label}/0")

    assert broker.depth("work") == 1


def test_r_qpid_7_expired_and_dropped_messages_do_not_go_to_the_alternate_exchange():
    broker = a_broker(max_length=1)
    broker.publish("", "work", "m1", expiration="0")
    broker.publish("", "work", "m2")
    broker.publish("", "work", "m3")

    assert [line for line in broker.story() if "enqueued" not in line] == [
        "m1 died in work, expired, to nowhere: no_exchange",
        "m2 died in work, maxlen, to nowhere: no_exchange",
    ]


def test_r_qpid_8_a_requeue_never_reroutes():
    broker = a_broker()
    broker.publish("", "work", "m1")
    broker.get("work", "g")

    broker.reject("g/0", requeue=True)

    assert broker.story()[2:] == ["m1 requeued in work"]


def test_r_qpid_9_the_alternate_exchange_of_a_queue_cannot_be_deleted():
    broker = a_broker()

    refused = broker.refusal(commands.DeleteExchange(exchange="alt"))
    broker.do(commands.DeleteQueue(queue="work"))

    assert refused == Refusal(406, "PRECONDITION_FAILED - exchange 'alt' in vhost '/' in use")
    assert broker.refusal(commands.DeleteExchange(exchange="alt")) is None


def test_with_a_dead_letter_exchange_the_alternate_exchange_gets_only_orphans():
    broker = a_broker(dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.publish("", "work", "m1")
    broker.publish("", "work", "m2")
    broker.get("work", "g")
    broker.reject("g/0")

    broker.do(commands.DeleteQueue(queue="work"))

    assert [line for line in broker.story() if "," in line] == [
        "m1 died in work, rejected, to dead",
        "m2 rerouted in work, orphaned, to spare",
    ]


@CUT
def test_orphans_of_expired_and_auto_deleted_queues_are_rerouted(cut):
    broker = a_broker(cut=cut, expires=1_000)
    broker.queue("auto", alternate_exchange="alt", auto_delete=True)
    broker.publish("", "work", "m1")
    broker.consume("auto", "c", prefetch=1)
    broker.publish("", "auto", "m2")
    broker.publish("", "auto", "m3")

    broker.at(1_000)
    broker.do(commands.Cancel(label="c"))

    assert [line for line in broker.story() if "rerouted" in line] == [
        "m1 rerouted in work, orphaned, to spare",
        "m2 rerouted in auto, orphaned, to spare",
        "m3 rerouted in auto, orphaned, to spare",
    ]
    assert broker.drain("spare") == ["m1", "m2", "m3"]


@CUT
def test_orphans_that_reach_a_queue_about_to_be_deleted_are_orphans_there(cut):
    """Both queues are deleted with their channel; nothing may arrive in a deleted queue."""
    broker = Broker(cut=cut)
    for name, arguments in (("a", {"alternate_exchange": "amq.fanout"}), ("b", {})):
        declaration = a_queue(name, exclusive=True, **arguments)
        broker.do(commands.DeclareQueue(queue=declaration, channel="c1"))
    broker.do(commands.Bind(binding=Binding("amq.fanout", "b"), channel="c1"))
    broker.publish("", "a", "m1")

    broker.close_channel("c1")

    assert broker.story() == [
        "m1 enqueued in a",
        "m1 rerouted in a, orphaned, to b",
        "m1 enqueued in b",
        "m1 deleted in b",
    ]


@CUT
def test_an_exclusive_queue_is_usable_only_on_its_channel_and_deleted_with_it(cut):
    broker = Broker(cut=cut)
    declare = commands.DeclareQueue(queue=Queue("mine", exclusive=True), channel="c1")
    assert broker.answer(declare) == {"queue": "mine", "ready": 0, "consumers": 0}

    locked = broker.refusal(commands.Depth(queue="mine"))
    other_user = broker.refusal(commands.Depth(queue="mine", channel="c1"), user="bob")
    again = broker.answer(declare)
    broker.close_channel("c1")

    assert locked == other_user
    assert locked is not None
    assert locked.code == 405
    assert again == {"queue": "mine", "ready": 0, "consumers": 0}
    assert broker.depth("mine") is None
