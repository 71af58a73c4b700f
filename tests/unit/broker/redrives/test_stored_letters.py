"""Letters that are in no queue any more are published again, each at most once."""

from typing import Any

import msgspec
import pytest

from streaming.broker.commands import Redrive, SetPermissions
from streaming.broker.events import Kind
from streaming.broker.redrive_letters import Letter, RedriveOptions, StoredLetter, Target
from streaming.broker.redrives.letters import stored_headers
from tests.builders import ADMIN, Broker

STORED = StoredLetter(
    (0, 0, 0),
    2,
    0,
    '{"h": {"$bytes": "YQ=="}}',
    ((1, "rejected", "work", 1_600_000_000, "", ("work",), None),),
    ("rejected", "work", ""),
    ("rejected", "work", ""),
)


def a_broker(**fields):
    broker = Broker(**fields)
    broker.queue("work")
    broker.publish("", "work", "m0", headers={"h": b"a", "BCC": ["nobody"]})
    broker.get("work", "g")
    broker.reject("g/0")  # no dead-letter exchange: lost
    broker.finish()
    return broker


def again(broker, redrive_id, stored=STORED, user=None, **options):
    [died] = [row.copy.copy_id for row in broker.rows if row.kind is Kind.DIED]
    letter = Letter(0, died, "work", Target("work", "", ("work",)), 0, stored)
    fields = {"id": redrive_id, "reason": "x", "seal": redrive_id, "total": 1}
    command = Redrive(letters=(letter,), options=RedriveOptions(**options), **fields)
    return died, broker.answer(command, user=user)


@pytest.mark.parametrize("cut", [False, True])
def test_a_lost_letter_is_published_again_as_a_copy_of_the_old_one(cut):
    broker = a_broker(cut=cut)

    died, answer = again(broker, "r")

    assert answer["moved"] == 1
    [got] = broker.get("work")
    assert (got.copy.parent_copy_id, got.copy.message.offset) == (died, 0)
    headers = broker.delivered_headers(got.copy) or {}
    assert (headers["h"], headers["x-redrive-count"], "BCC" in headers) == (b"a", 1, False)
    assert headers["x-death"][0]["reason"] == "rejected"
    broker.finish()
    assert [row.copy.copy_id for row in broker.rows if row.kind is Kind.REPUBLISHED] == [died]


def test_a_letter_is_published_again_once_whatever_the_id():
    broker = a_broker()
    again(broker, "r")
    broker.finish()

    _, answer = again(broker, "other")

    assert (answer["moved"], answer["skipped"], broker.depth("work")) == (0, 1, 1)


def test_a_restored_letter_bears_no_marks():
    broker = a_broker()

    again(broker, "r", msgspec.structs.replace(STORED, headers=None), action="restore")

    [got] = broker.get("work")
    assert set(broker.delivered_headers(got.copy) or {}) == {
        "h",
        "x-death",
        *(f"x-{which}-death-{what}" for which in ("first", "last") for what in WHAT),
    }


WHAT = ("reason", "queue", "exchange")


def test_a_letter_that_bears_no_deaths_is_published_as_it_was():
    broker = a_broker()
    bare = StoredLetter((0, 0, 0), 2, 5, None, ())

    again(broker, "r", bare, action="restore")

    [got] = broker.get("work")
    assert (broker.delivered_headers(got.copy), got.copy.envelope.priority) == ({"h": b"a"}, 5)


@pytest.mark.parametrize(
    ("headers", "cc", "count"),
    [
        ('{"x-redrive-count": 2, "x-redrive-id": "old", "CC": ["a", 1]}', ("a",), 3),
        ('{"x-redrive-count": "7", "CC": "odd"}', None, 1),
        ('{"x-redrive-count": -1}', None, 1),
    ],
)
def test_a_stored_letter_has_its_marks_and_keys_again(headers, cc, count):
    broker = a_broker()

    again(broker, "r", msgspec.structs.replace(STORED, headers=headers))

    [got] = broker.get("work")
    assert got.copy.envelope.cc == cc
    assert got.copy.envelope.added == {"x-redrive-id": "r", "x-redrive-count": count}


def test_a_lost_letter_waits_for_a_full_target_like_any_other():
    broker = a_broker()
    broker.queue("small", max_length=1, overflow="reject-publish")
    broker.publish("", "small", "x")
    letter = Letter(0, 2, "work", Target("small", "", ("small",)), 0, STORED)
    other = Letter(0, 3, "work", Target("small", "", ("small",)), 0, STORED)
    broker.do(Redrive(id="r", reason="x", seal="s", total=2, letters=(letter, other)))
    broker.drain("small")

    broker.at(5_000)

    assert broker.depth("small") == 1


def test_only_administrators_may_publish_what_is_in_no_queue():
    broker = a_broker(enforce_permissions=True, administrators=(ADMIN, "ann"))

    assert again(broker, "r", user="bob")[1].code == 403
    broker.do(SetPermissions(user="bob", configure=".*", write=".*", read=".*"))
    refusal = again(broker, "r", user="bob")[1]
    assert refusal.code == 403
    assert "may not publish letters again that are in no queue" in refusal.text
    assert again(broker, "r", user="ann")[1]["moved"] == 1


@pytest.mark.parametrize(
    ("headers", "text"), [("[]", "object"), ("[" * 100_000 + "]" * 100_000, "too deeply nested")]
)
def test_headers_must_be_typed_json(headers, text):
    with pytest.raises(ValueError, match=text):
        stored_headers(msgspec.structs.replace(STORED, headers=headers))


def test_a_letter_whose_message_is_not_stored_is_skipped():
    broker = a_broker()

    died, answer = again(broker, "r", msgspec.structs.replace(STORED, message=(0, 0, 99)))

    assert (answer["moved"], answer["skipped"], broker.depth("work")) == (0, 1, 0)
    assert (Kind.SKIPPED, died, "not_stored") in [
        (row.kind, row.detail["copy_id"], row.detail["reason"])
        for row in broker.everything()
        if row.kind is Kind.SKIPPED and row.detail
    ]


def test_an_original_expiration_that_is_no_number_is_ignored():
    broker = a_broker()
    death = (1, "expired", "work", 1_600_000_000, "", ("work",), "soon")

    answer = again(
        broker, "r", msgspec.structs.replace(STORED, deaths=(death,)), expiration="restart"
    )[1]

    assert answer["moved"] == 1
    [got] = broker.get("work")
    assert got.copy.envelope.ttl_ms is None


def test_a_letter_from_the_future_keeps_no_more_than_its_expiration():
    broker = a_broker()
    death = (1, "expired", "work", 1_600_000_000, "", ("work",), "60000")
    stored = msgspec.structs.replace(STORED, deaths=(death,))
    letter = Letter(0, 999, "work", Target("work", "", ("work",)), 1 << 60, stored)
    options = RedriveOptions(expiration="keep")

    broker.answer(
        Redrive(id="r", reason="x", seal="r", total=1, letters=(letter,), options=options)
    )

    [got] = broker.get("work")
    assert got.copy.envelope.ttl_ms == 60_000


@pytest.mark.parametrize(
    ("published", "moved"), [({"x-redrive-id": "r0", "x-redrive-count": 3}, 1), ({}, 0)]
)
def test_marks_that_a_client_published_are_not_counted(published, moved):
    broker = Broker()
    broker.queue("work")
    broker.publish("", "work", "m0", headers=published)
    broker.get("work", "g")
    broker.reject("g/0")
    broker.finish()
    headers = '{"x-redrive-id": "r0", "x-redrive-count": 3}'

    answer = again(broker, "r", msgspec.structs.replace(STORED, headers=headers))[1]

    assert (answer["moved"], answer["parked"]) == (moved, 1 - moved)


@pytest.mark.parametrize("place", ["ready", "expired", "unacked", "held"])
def test_a_letter_that_is_still_in_a_queue_is_not_published_again(place):
    broker = Broker()
    broker.queue("work")
    broker.queue("full", max_length=1, overflow="reject-publish")
    broker.publish("", "full", "x")
    broker.quorum(
        "dead",
        dead_letter_exchange="",
        dead_letter_routing_key="full",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    if place == "expired":
        broker.publish("", "dead", "head")
    limits: dict[str, Any] = {"expiration": "5"} if place == "expired" else {}
    broker.publish("", "dead", "m0", **limits)
    broker.finish()
    copy_id = [row.seq for row in broker.rows if row.kind is Kind.ENQUEUED][-1]
    if place == "expired":
        broker.at(10)
    if place in {"unacked", "held"}:
        broker.get("dead", "g")
    if place == "held":
        broker.reject("g/0")
    letter = Letter(0, copy_id, "elsewhere", Target("work", "", ("work",)), 0, STORED)

    broker.do(Redrive(id="r", reason="x", seal="r", total=1, letters=(letter,)))

    assert broker.depth("work") == 0
    broker.finish()
    [row] = [row for row in broker.rows if row.kind is Kind.SKIPPED]
    assert row.detail == {"redrive": "r", "copy_id": copy_id, "reason": "in_queue"}
