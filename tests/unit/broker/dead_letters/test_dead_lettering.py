"""The number of dead letters that one message can cause in one instant is limited (D11)."""

import pytest

from streaming.broker import commands
from streaming.broker.dead_letters import planning
from tests.builders import Broker


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MAX_DESCENDANTS", 5)


def fan_out(broker: Broker, exchange: str, *names: str, **arguments: object) -> None:
    broker.exchange(exchange, "fanout")
    for name in names:
        broker.queue(name, **arguments)
        broker.bind(exchange, name)


def test_dead_letters_over_the_limit_are_dropped_with_an_outcome():
    broker = Broker()
    fan_out(broker, "x", "x0", "x1")
    fan_out(broker, "y", "y0", "y1", "y2", message_ttl=0, dead_letter_exchange="x")
    broker.queue("first", message_ttl=0, dead_letter_exchange="y")

    broker.publish("", "first", "m")

    assert broker.story() == [
        "m enqueued in first",
        "m died in first, expired, to y0, y1, y2",
        "m enqueued in y0",
        "m died in y0, expired, to x0, x1",
        "m enqueued in y1",
        "m died in y1, expired, to nowhere: cascade_limit",
        "m enqueued in y2",
        "m died in y2, expired, to nowhere: cascade_limit",
        "m enqueued in x0",
        "m enqueued in x1",
    ]


def test_a_death_reaches_as_many_targets_as_the_limit_has_left():
    broker = Broker()
    fan_out(broker, "x", "x0", "x1")
    fan_out(broker, "y", "y0", "y1", message_ttl=0, dead_letter_exchange="x")
    broker.queue("first", message_ttl=0, dead_letter_exchange="y")

    broker.publish("", "first", "m")

    assert [(queue, what, to) for *_, queue, _, what, to in broker.shard.events.deaths()] == [
        ("first", "", ("y0", "y1")),
        ("y0", "", ("x0", "x1")),
        ("y1", "cascade_limit", ("x0",)),
    ]


def test_one_death_with_more_targets_than_the_limit_reaches_the_first_targets():
    broker = Broker()
    fan_out(broker, "x", *(f"x{number}" for number in range(7)))
    broker.queue("first", message_ttl=0, dead_letter_exchange="x")

    broker.publish("", "first", "m")

    assert broker.story()[1] == "m died in first, expired, to x0, x1, x2, x3, x4"


def test_each_message_has_its_own_limit():
    broker = Broker()
    fan_out(broker, "x", "x0", "x1", "x2")
    broker.queue("first", dead_letter_exchange="x")
    for body in ("m1", "m2", "m3"):
        broker.publish("", "first", body)

    broker.policy("short", "first", {"max-length": 0})

    assert [line for line in broker.story() if "died" in line] == [
        f"{body} died in first, maxlen, to x0, x1, x2" for body in ("m1", "m2", "m3")
    ]


def test_deaths_of_one_message_in_one_event_share_its_limit():
    """The first hop can exceed the limit: four copies of one message die at once."""
    broker = Broker()
    fan_out(broker, "x", "x0", "x1")
    broker.queue("first", dead_letter_exchange="x")
    fan_out(broker, "y", *(f"y{n}" for n in range(4)), message_ttl=1_000, dead_letter_exchange="")
    for number in range(4):
        broker.policy(f"p{number}", f"^y{number}$", {"dead-letter-routing-key": "first"})
    broker.publish("y", "", "m")
    broker.at(1_000)
    broker.story()

    broker.policy("short", "first", {"max-length": 0})

    assert broker.story() == [
        "m died in first, maxlen, to x0, x1",
        "m died in first, maxlen, to x0, x1",
        "m died in first, maxlen, to x0",
        "m died in first, maxlen, to nowhere: cascade_limit",
        *["m enqueued in x0", "m enqueued in x1"] * 2,
        "m enqueued in x0",
    ]


RING = {"queue_type": "quorum", "message_ttl": 0, "overflow": "reject-publish"}
AT_LEAST_ONCE = {"dead_letter_exchange": "ring", "dead_letter_strategy": "at-least-once"}


def test_a_cycle_of_at_least_once_queues_that_3_10_allows_stops_at_the_limit():
    """R-CYC-6 (a): on 3.10, an old rejection allows an automatic cycle to continue for ever."""
    broker = Broker(compat="3.10")
    broker.exchange("ring", "fanout")
    for name in ("a", "b"):
        broker.queue(name, **RING, **AT_LEAST_ONCE)
    given = {"queue": "b", "reason": "rejected", "count": 1}
    again = {"queue": "a", "reason": "rejected", "count": 1}
    broker.bind("ring", "a")
    broker.bind("ring", "b")

    broker.publish("", "a", "m", headers={"x-death": [given, again]})

    lines = broker.story()
    assert sum("enqueued" in line for line in lines) == 6
    assert sum("cascade_limit" in line for line in lines) >= 1
    assert (broker.depth("a"), broker.depth("b")) == (0, 0)
    assert sum("held" in line for line in lines) == 0


def test_a_retry_of_many_copies_of_one_message_obeys_the_limit():
    broker = Broker(dead_letter_retry_ms=1_000)
    fan_out(broker, "x")
    broker.quorum(
        "first",
        message_ttl=0,
        overflow="reject-publish",
        dead_letter_exchange="x",
        dead_letter_strategy="at-least-once",
    )
    broker.publish("", "first", "m")
    fan_out(broker, "x", *(f"x{number}" for number in range(6)))
    broker.story()

    broker.at(1_000)

    assert broker.story() == ["m died in first, expired, to nowhere: cascade_limit"]


def test_many_messages_rerouted_together_have_the_limit_each():
    broker = Broker()
    fan_out(broker, "spare", "s0", "s1")
    broker.queue("work", alternate_exchange="spare")
    for number in range(5):
        broker.publish("", "work", f"m{number}")
    deliveries = broker.get("work", count=5)
    broker.story()

    broker.do(commands.Nack(refs=(deliveries[-1].delivery_id,), multiple=True))

    assert [what for *_, what, _ in broker.shard.events.deaths()] == [""] * 5
    assert (broker.depth("s0"), broker.depth("s1")) == (5, 5)
