"""`immediate`, and warnings of alternate exchanges that are missing."""

from streaming.broker.events import Kind
from streaming.broker.outbound import DeliveryOut
from tests.builders import Broker
from tests.event_sentences import confirms, returns


def test_immediate_reaches_only_queues_that_can_deliver_now():
    """Document 001."""
    broker = Broker()
    for name in ("idle", "busy"):
        broker.queue(name)
        broker.bind("amq.fanout", name)
    broker.consume("idle", "c")

    out = broker.publish("amq.fanout", "", "m1", immediate=True, confirm=True)

    assert [one.ref for one in out if isinstance(one, DeliveryOut)] == ["c/0"]
    assert (returns(out), confirms(out)) == ([], [True])
    assert broker.depth("busy") == 0


def test_immediate_without_a_ready_consumer_is_returned_with_313():
    broker = Broker()
    broker.queue("q")
    broker.consume("q", "c", prefetch=1)
    broker.publish("", "q", "m1")

    out = broker.publish("", "q", "m2", immediate=True, confirm=True)

    assert (returns(out), confirms(out)) == ([(313, "NO_CONSUMERS", "", "q")], [True])
    assert broker.story()[2:] == ["m2 returned"]


def test_immediate_and_mandatory_without_a_route_is_returned_with_312():
    broker = Broker()

    out = broker.publish("", "none", "m1", immediate=True, mandatory=True)

    assert returns(out) == [(312, "NO_ROUTE", "", "none")]


def test_immediate_follows_alternate_exchanges_to_a_queue_that_can_deliver():
    """Document 001: the flags also apply to publishing through alternate exchanges."""
    broker = Broker()
    broker.exchange("third", "fanout")
    broker.exchange("second", "fanout", arguments={"alternate-exchange": "third"})
    broker.exchange("first", "fanout", arguments={"alternate-exchange": "second"})
    for exchange, queue in (("first", "a"), ("second", "b"), ("third", "c")):
        broker.queue(queue)
        broker.bind(exchange, queue)
    broker.consume("c", "reader")

    out = broker.publish("first", "k", "m1", immediate=True)

    assert [one.queue for one in out if isinstance(one, DeliveryOut)] == ["c"]
    assert broker.story() == ["m1 enqueued in c", "m1 delivered in c"]


def test_immediate_stops_at_the_end_or_a_cycle_of_alternate_exchanges():
    broker = Broker()
    broker.exchange("one", "fanout", arguments={"alternate-exchange": "two"})
    broker.exchange("two", "fanout", arguments={"alternate-exchange": "one"})
    broker.exchange("three", "fanout", arguments={"alternate-exchange": "gone"})
    broker.queue("q")
    for name in ("one", "two", "three"):
        broker.bind(name, "q")

    codes = [
        returns(broker.publish(name, "", "m", immediate=True))[0][0] for name in ("one", "three")
    ]

    assert codes == [313, 313]


def test_a_missing_alternate_exchange_causes_one_warning_per_exchange_and_topology_version():
    broker = Broker()
    broker.exchange("x", arguments={"alternate-exchange": "gone"})
    broker.exchange("y", arguments={"alternate-exchange": "gone"})
    warning = {"exchange": "x", "missing_alternate_exchange": "gone"}

    for _ in range(2):
        broker.publish("x", "k", "m")
        broker.finish()
    broker.publish("y", "k", "m")
    broker.queue("q")
    broker.publish("x", "k", "m")

    assert broker.of_kind(Kind.WARNING) == [
        ("", warning),
        ("", {**warning, "exchange": "y"}),
        ("", warning),
    ]


def test_a_missing_alternate_of_an_inner_exchange_causes_a_warning():
    broker = Broker()
    broker.exchange("x", "fanout")
    broker.exchange("y", arguments={"alternate-exchange": "gone"})
    broker.bind("x", "y", destination_type="exchange")
    broker.queue("q")
    broker.bind("x", "q")

    broker.publish("x", "", "m1")

    assert broker.story() == ["m1 enqueued in q"]
    assert len(broker.of_kind(Kind.WARNING)) == 1


def test_a_copy_that_dies_on_arrival_has_the_number_of_its_death_despite_a_warning():
    broker = Broker()
    broker.exchange("x", arguments={"alternate-exchange": "gone"})
    broker.queue("q", max_length=0, overflow="reject-publish-dlx", dead_letter_exchange="x")

    broker.publish("", "q", "m1")

    death, warning = broker.everything()[-2:]
    assert (death.kind, warning.kind) == (Kind.DIED, Kind.WARNING)
    assert death.copy is not None
    assert death.copy.copy_id == death.seq


def test_immediate_follows_the_alternate_exchanges_of_inner_exchanges():
    broker = Broker()
    broker.exchange("outer", "fanout")
    broker.exchange("inner", "fanout", arguments={"alternate-exchange": "spare"})
    broker.exchange("spare", "fanout")
    broker.bind("outer", "inner", destination_type="exchange")
    broker.queue("busy")
    broker.bind("inner", "busy")
    broker.queue("free")
    broker.bind("spare", "free")
    broker.consume("free", "c")

    assert returns(broker.publish("outer", "", "m1", immediate=True)) == []
    assert broker.deliveries() == ["c/0 m1"]


def test_immediate_warns_about_missing_alternate_exchanges():
    broker = Broker()
    broker.exchange("x", "fanout", arguments={"alternate-exchange": "gone"})
    broker.queue("q")
    broker.bind("x", "q")

    broker.publish("x", "", "m1", immediate=True)

    warning = {"exchange": "x", "missing_alternate_exchange": "gone"}
    assert broker.of_kind(Kind.WARNING) == [("", warning)]
