"""What consumers say about the messages they give up (R-SET-9)."""

from typing import Any

import pytest

from streaming.broker import reject_reasons
from streaming.broker.commands import Nack, Redrive, Reject
from streaming.broker.events import Kind
from streaming.broker.message import Envelope
from streaming.broker.redrive_letters import Letter, RedriveOptions, StoredLetter, Target
from streaming.broker.reject_reasons import MAX_CAUSE_BYTES, X_EXCEPTION_MESSAGE, Causes, cause_of
from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])


def a_broker(*, cut: bool = False, kind: str = "classic", **arguments: Any) -> Broker:
    """A queue `work` whose dead letters go to `dead`."""
    broker = Broker(cut=cut)
    broker.queue(
        "work",
        queue_type=kind,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
        **arguments,
    )
    broker.queue("dead")
    return broker


def give_up(
    broker: Broker, queue: str = "work", reason: str | None = "a typo", **more: Any
) -> None:
    broker.get(queue, "g")
    broker.do(Nack(refs=("g/0",), reason=reason, **more))


def header(broker: Broker, queue: str = "dead") -> Any:
    """The header of the head of a queue, which stays there."""
    [got] = broker.get(queue, "look")
    headers = broker.delivered_headers(got.copy) or {}
    broker.reject("look/0", requeue=True)
    return headers.get(X_EXCEPTION_MESSAGE)


def details(broker: Broker, kind: Kind) -> list[dict[str, Any]]:
    return [detail for _queue, detail in broker.of_kind(kind)]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (None, None),
        ("", None),
        ("card declined", "card declined"),
        ("a" * 2_000, "a" * MAX_CAUSE_BYTES),
        ("é" * 600, "é" * 512),
        ("a" + "é" * 600, "a" + "é" * 511),
        ("𝄞" * 2_000, "𝄞" * 256),
        ("\ud834 alone", "? alone"),
    ],
)
def test_a_cause_is_cut_in_front_of_a_character(reason, cause):
    assert cause_of(reason) == cause


@CUT
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_dead_letter_and_the_event_say_why(kind, cut):
    broker = a_broker(cut=cut, kind=kind)
    broker.publish("", "work", "m1")

    give_up(broker)

    assert details(broker, Kind.DIED) == [{"cause": "a typo"}]
    assert header(broker) == "a typo"


@CUT
def test_without_a_reason_nothing_is_added(cut):
    broker = a_broker(cut=cut)
    broker.publish("", "work", "m1")

    give_up(broker, reason=None)

    assert details(broker, Kind.DIED) == [{}]
    assert header(broker) is None
    [row] = [row for row in broker.rows if row.kind is Kind.DIED]
    assert row.copy is not None
    assert row.copy.envelope.added is None


@CUT
def test_a_reason_holds_for_each_delivery_of_its_settlement(cut):
    broker = a_broker(cut=cut)
    for number in range(3):
        broker.publish("", "work", f"m{number}")
    broker.get("work", "g", count=3)

    broker.do(Nack(refs=("g/1",), multiple=True, reason="both"))
    broker.do(Reject(refs=("g/2",), reason="alone"))

    assert [detail["cause"] for detail in details(broker, Kind.DIED)] == ["both", "both", "alone"]


@CUT
def test_the_header_replaces_the_publishers_and_an_earlier_one_and_stays(cut):
    """A later death without a reason has no cause of its own, and leaves the header."""
    broker = a_broker(cut=cut)
    broker.queue("again", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.publish("", "again", "m1", headers={X_EXCEPTION_MESSAGE: "mine", "n": 1})

    give_up(broker, "again", "first")
    seen = [header(broker)]
    broker.policy("p", "dead", {"dead-letter-exchange": "", "dead-letter-routing-key": "again"})
    give_up(broker, "dead", "second")
    seen.append(header(broker, "again"))
    give_up(broker, "again", None)
    seen.append(header(broker))

    assert seen == ["first", "second", "second"]
    assert details(broker, Kind.DIED) == [{"cause": "first"}, {"cause": "second"}, {}]


@CUT
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_requeue_says_why_and_marks_nothing(kind, cut):
    broker = a_broker(cut=cut, kind=kind)
    broker.publish("", "work", "m1")

    give_up(broker, requeue=True)

    assert details(broker, Kind.REQUEUED) == [{"cause": "a typo"}]
    assert header(broker, "work") is None


@CUT
def test_the_requeue_over_the_delivery_limit_says_why_it_died(cut):
    broker = a_broker(cut=cut, kind="quorum", delivery_limit=1)
    broker.publish("", "work", "m1")

    give_up(broker, reason="first", requeue=True)
    give_up(broker, reason="second", requeue=True)

    assert details(broker, Kind.DIED) == [{"cause": "second"}]
    assert header(broker) == "second"


@CUT
def test_a_held_copy_keeps_its_cause_until_its_dead_letter_is_accepted(cut):
    broker = Broker(cut=cut, dead_letter_retry_ms=1_000)
    broker.quorum(
        "work",
        dead_letter_exchange="dlx",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    broker.queue("dead")
    broker.publish("", "work", "m1")
    give_up(broker)
    broker.exchange("dlx", "fanout")
    broker.bind("dlx", "dead")

    broker.at(1_000)

    assert details(broker, Kind.HELD) == [{"reason": "rejected", "cause": "a typo"}]
    assert details(broker, Kind.DIED) == [{"cause": "a typo"}]
    assert header(broker) == "a typo"


@CUT
def test_a_copy_that_is_rerouted_says_why(cut):
    """R-QPID-1."""
    broker = Broker(cut=cut)
    broker.exchange("alternate", "fanout")
    broker.queue("work", alternate_exchange="alternate")
    broker.queue("dead")
    broker.bind("alternate", "dead")
    broker.publish("", "work", "m1")

    give_up(broker)

    assert details(broker, Kind.REROUTED) == [{"cause": "a typo"}]
    assert header(broker) == "a typo"


@CUT
def test_a_headers_exchange_can_route_dead_letters_by_their_cause(cut):
    broker = Broker(cut=cut)
    broker.exchange("dlx", "headers")
    broker.queue("work", dead_letter_exchange="dlx")
    for name, cause in (("typos", "a typo"), ("others", "no card")):
        broker.queue(name)
        broker.bind("dlx", name, arguments={X_EXCEPTION_MESSAGE: cause, "x-match": "all-with-x"})
    for reason in ("a typo", "no card", "a typo"):
        broker.publish("", "work", reason)
        give_up(broker, reason=reason)

    assert (broker.depth("typos"), broker.depth("others")) == (2, 1)


def test_earlier_events_of_the_batch_do_not_know_the_cause_yet():
    broker = a_broker()
    broker.publish("", "work", "m1")
    give_up(broker, reason="first")
    give_up(broker, "dead", "second")

    copies = [row.copy for row in broker.everything() if row.kind is Kind.ENQUEUED]
    assert [(one.envelope.added or {}).get(X_EXCEPTION_MESSAGE) for one in copies if one] == [
        None,
        "first",
    ]


def test_equal_causes_share_an_envelope_and_few_are_remembered(monkeypatch):
    monkeypatch.setattr(reject_reasons, "MAX_KNOWN", 2)
    broker = a_broker()
    for number in range(2):
        broker.publish("", "work", f"m{number}")
    one, other = (out.copy for out in broker.get("work", "g", count=2))
    known = Causes()

    given = [known.give(copy, cause) for copy, cause in [(one, "a"), (other, "a"), (one, "b")]]

    assert given[0].envelope is given[1].envelope
    assert (given[0].copy_id, given[1].copy_id) == (one.copy_id, other.copy_id)
    assert one.envelope.added is None
    known.give(one, "c")
    assert known.give(other, "a").envelope is not given[0].envelope


# -- redrives


def redrive(broker: Broker, **options: Any) -> None:
    """Move the letter in `dead` to `fixed`."""
    broker.queue("fixed")
    broker.finish()
    [copy_id] = [
        row.seq for row in broker.rows if row.kind is Kind.ENQUEUED and row.queue == "dead"
    ]
    letter = Letter(0, copy_id, "dead", Target("fixed", "", ("fixed",)))
    fields: dict[str, Any] = {"id": "r", "reason": "x", "seal": "s", "total": 1}
    answer = broker.answer(Redrive(letters=(letter,), options=RedriveOptions(**options), **fields))
    assert isinstance(answer, dict)
    assert answer["moved"] == 1


@CUT
@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "a typo"), ({"x_death": "clear"}, None)],
)
def test_a_redriven_letter_keeps_the_header_unless_the_deaths_are_cleared(cut, options, expected):
    broker = a_broker(cut=cut)
    broker.publish("", "work", "m1")
    give_up(broker)

    redrive(broker, **options)

    assert header(broker, "fixed") == expected


STORED = StoredLetter(
    (0, 0, 0),
    2,
    0,
    '{"x-exception-message": "a typo"}',
    ((1, "rejected", "work", 1_600_000_000, "", ("work",), None),),
)


@pytest.mark.parametrize(
    ("published", "added"),
    [
        (None, "a typo"),
        ({X_EXCEPTION_MESSAGE: "mine"}, "a typo"),
        ({X_EXCEPTION_MESSAGE: "a typo"}, None),
    ],
)
def test_a_stored_letter_has_its_cause_again_unless_it_was_the_publishers(published, added):
    broker = Broker()
    broker.queue("work")
    broker.publish("", "work", "m1", headers=published)
    give_up(broker)
    broker.finish()
    [died] = [row.copy.copy_id for row in broker.rows if row.kind is Kind.DIED and row.copy]
    letter = Letter(0, died, "work", Target("work", "", ("work",)), 0, STORED)
    fields: dict[str, Any] = {"id": "r", "reason": "x", "seal": "s", "total": 1}

    broker.answer(Redrive(letters=(letter,), **fields))

    [got] = broker.get("work")
    assert (got.copy.envelope.added or {}).get(X_EXCEPTION_MESSAGE) == added
    assert header_of(broker, got.copy.envelope) == "a typo"


def header_of(broker: Broker, envelope: Envelope) -> Any:
    published = broker.headers[0].headers or {}
    return {**published, **(envelope.added or {})}.get(X_EXCEPTION_MESSAGE)
