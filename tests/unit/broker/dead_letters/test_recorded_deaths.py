"""What the events of deaths, reroutes and refused dead letters record."""

import pytest

from streaming.broker import commands
from streaming.broker.events import DeathOutcome, Kind
from tests.builders import START_MS, Broker

CUT = pytest.mark.parametrize("cut", [False, True])


def outcomes(broker: Broker) -> list[DeathOutcome]:
    return [outcome for _, _, _, outcome, _, _ in broker.shard.events.deaths()]


def rejected_in_work(broker: Broker) -> None:
    """Publish a message with key `work` and header `h`, and reject it."""
    broker.publish("", "work", "m1", headers={"h": 1})
    broker.get("work", "g")
    broker.reject("g/0")


@pytest.mark.parametrize(
    ("alternate", "outcome", "exchange"),
    [("gone", "no_exchange", ""), ("amq.direct", "no_route", "amq.direct")],
)
def test_r_qpid_2_a_reroute_to_nowhere_records_why_and_the_message(alternate, outcome, exchange):
    broker = Broker()
    broker.queue("work", alternate_exchange=alternate)

    rejected_in_work(broker)

    (recorded,) = outcomes(broker)
    assert (recorded.reason, recorded.outcome) == ("rejected", outcome)
    assert (recorded.targets, recorded.cycles, recorded.refused) == ((), (), ())
    assert (recorded.envelope.exchange, recorded.envelope.routing_keys) == (exchange, ("work",))
    assert [event.number for event in broker.everything() if event.kind is Kind.REROUTED] == [0]


def test_r_qpid_5_a_second_reroute_records_the_message_that_was_discarded():
    broker = Broker()
    broker.queue("work", alternate_exchange="amq.fanout")
    broker.bind("amq.fanout", "work")
    rejected_in_work(broker)
    broker.get("work", "h")

    broker.reject("h/0")

    recorded = outcomes(broker)[-1]
    assert (recorded.outcome, recorded.targets) == ("rerouted_before", ())
    assert recorded.envelope.exchange == "amq.fanout"


def test_r_qpid_1_a_reroute_can_go_by_the_headers_of_the_message():
    broker = Broker()
    broker.queue("work", alternate_exchange="amq.headers")
    for queue, value in (("spare", 1), ("other", 2)):
        broker.queue(queue)
        broker.bind("amq.headers", queue, arguments={"h": value})

    rejected_in_work(broker)

    assert (broker.drain("spare"), broker.drain("other")) == (["m1"], [])
    assert outcomes(broker)[0].outcome == ""


@CUT
@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_r_ttl_4_dead_letters_to_several_queues_live_from_the_death_on(cut, strategy):
    broker = Broker(cut=cut)
    broker.exchange("dlx", "fanout")
    broker.quorum(
        "work",
        dead_letter_exchange="dlx",
        dead_letter_strategy=strategy,
        overflow="reject-publish",
    )
    for queue, ttl in (("long", 1_000), ("short", 500)):
        broker.queue(queue, message_ttl=ttl)
        broker.bind("dlx", queue)
    broker.publish("", "work", "m1")
    broker.get("work", "g")
    broker.at(300).reject("g/0")

    left = []
    for after_ms in (799, 800, 1_299, 1_300):
        broker.at(after_ms)
        left.append((broker.depth("short"), broker.depth("long")))

    assert left == [(1, 1), (0, 1), (0, 1), (0, 0)]


def test_a_dead_letter_that_dies_again_with_two_targets_is_recorded_with_every_refusal():
    """R-LEN-12."""
    broker = Broker()
    broker.exchange("dlx", "fanout")
    broker.queue("work", message_ttl=0, dead_letter_exchange="dlx")
    for queue in ("full", "full too"):
        broker.queue(queue, max_length=0, overflow="reject-publish")
        broker.bind("dlx", queue)

    broker.publish("", "work", "m1")

    envelopes = [envelope for _, envelope in broker.shard.events.messages.values()]
    assert [envelope and envelope.exchange for envelope in envelopes] == ["dlx", "dlx"]
    assert [len(envelope.deaths) for envelope in envelopes if envelope] == [1, 1]


@pytest.mark.parametrize(
    ("count", "following"),
    [(1 << 62, (1 << 62) + 1), (-(1 << 62), 1 - (1 << 62)), (1 + (1 << 62), 1)],
)
def test_r_death_8_a_count_that_a_client_supplied_is_continued_up_to_a_limit(count, following):
    broker = Broker(compat="3.10")
    broker.queue("a", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="end")
    broker.queue("end")

    given = [{"queue": "a", "reason": "expired", "count": count}]
    broker.publish("", "a", "m1", headers={"x-death": given})

    (delivery,) = broker.get("end")
    headers = broker.delivered_headers(delivery.copy)
    assert headers is not None
    assert headers["x-death"][0]["count"] == following


@CUT
def test_a_held_copy_is_retried_at_every_interval_although_time_moves_far_at_once(cut):
    broker = Broker(cut=cut, dead_letter_retry_ms=1_000, consumer_timeout_ms=None)
    broker.queue("dead", max_length=1, overflow="reject-publish", message_ttl=1_500)
    broker.quorum(
        "work",
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    broker.publish("", "dead", "before")
    broker.publish("", "work", "m1")
    broker.get("work", "g")
    broker.reject("g/0")

    broker.at(9_000)

    events = broker.everything()
    (held,) = [event for event in events if event.kind is Kind.HELD]
    (died,) = [event for event in events if event.kind is Kind.DIED and event.queue == "work"]
    assert (held.number, held.detail) == (0, {"reason": "rejected"})
    assert (died.number, died.at_ms) == (0, START_MS + 2_000)


def test_d11_the_limit_of_dead_letters_in_one_instant_counts_each_message_apart(monkeypatch):
    monkeypatch.setattr("streaming.broker.dead_letters.planning.MAX_DESCENDANTS", 1)
    broker = Broker(dead_letter_retry_ms=1_000, consumer_timeout_ms=None)
    broker.quorum(
        "work",
        dead_letter_exchange="dlx",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    for body in ("m1", "m2"):
        broker.publish("", "work", body)
    broker.get("work", "g", count=2)
    broker.do(commands.Reject(refs=("g/0", "g/1")))
    broker.exchange("dlx", "fanout")
    broker.queue("dead")
    broker.bind("dlx", "dead")

    broker.at(1_000)

    assert broker.drain("dead") == ["m1", "m2"]
