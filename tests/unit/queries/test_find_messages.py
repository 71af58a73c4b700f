"""A text leads to messages, and what was not looked at is said."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from streaming.contents.search_index import SearchIndexer
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Tables
from streaming.queries.life.find import find_messages
from streaming.queries.life.why import why_of
from streaming.queries.read_rights import ReadRights
from tests.builders import START_MS, Broker
from tests.unit.queries.recording import QUERY_ID, Recording

PATHS = ("body:$.order",)


@pytest.fixture
def orders(tmp_path):
    """Order 17 died, order 18 waits, and 19 is not indexed yet."""
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("parked")
    broker.queue("orders", dead_letter_exchange="", dead_letter_routing_key="parked")
    for order in (17, 18):
        broker.publish("", "orders", json.dumps({"order": order, "note": "rush"}))
    broker.at(1_000).policy("parking", "^orders$", {"max-length": 9})
    broker.get("orders", "g", 1)
    broker.reject("g/0")
    recording.commit()
    SearchIndexer(recording.place, PATHS).update(QUERY_ID)
    broker.publish("", "orders", json.dumps({"order": 19}))
    recording.commit()
    return recording


def found(recording, text, **options):
    with Tables(recording.root) as tables:
        return find_messages(tables, text, 10, **options)


def test_a_value_finds_messages_that_died_and_that_did_not(orders):
    died, alive = found(orders, "17"), found(orders, "18")

    [one] = died.messages
    assert (one.message_id, one.place, one.queue, one.reason) == (
        *("0/0/0", "body:$.order"),
        *("orders", "rejected"),
    )
    [one] = alive.messages
    assert (one.message_id, one.queue, one.at) == ("0/0/1", None, None)
    assert died.indexed
    assert alive.indexed
    assert "Words and ids of dead letters were not looked at." in died.unseen


def test_words_of_dead_letters_are_found_besides(orders):
    [one] = found(orders, "rush").messages
    assert (one.message_id, one.place) == ("0/0/0", "body")
    [one] = found(orders, "17", words=True).messages
    assert one.place == "body"


def test_what_is_not_indexed_yet_is_said(orders):
    answer = found(orders, "19")

    assert answer.messages == []
    assert "The latest 1 batch is not indexed yet." in answer.unseen


def test_what_is_older_than_the_index_is_said(orders):
    SearchIndexer(orders.place, (*PATHS, "header:tenant"), 1).update(QUERY_ID)

    [said] = [one for one in found(orders, "19").unseen if "header:tenant" in one]

    assert said.startswith("Values of header:tenant are indexed since 20")
    assert said.endswith(", not of messages before.")


def test_without_an_index_it_is_said_that_only_dead_letters_are_searched(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("orders")
    recording.commit()

    [said] = found(recording, "17").unseen

    assert said.startswith("Only dead letters were searched")


def as_reader_of(tables, *queues):
    tables.rights = ReadRights("anna", {}, [("/", "parked"), ("/", "orders")])
    tables.rights.may_read = lambda vhost, queue: queue in queues


@pytest.mark.parametrize(
    ("queues", "seen"),
    [(("parked",), ["0/0/0"]), (("orders",), []), ((), [])],
)
def test_a_letter_is_found_by_who_may_read_the_queue_that_took_it(orders, queues, seen):
    with Tables(orders.root) as tables:
        as_reader_of(tables, *queues)
        answer = find_messages(tables, "17", 10)

    assert [one.message_id for one in answer.messages] == seen
    assert "What was in queues that you may not read was not searched." in answer.unseen


@pytest.mark.parametrize(("queues", "seen"), [(("orders",), ["0/0/1"]), (("parked",), [])])
def test_a_message_that_waits_is_found_by_who_may_read_its_queue(orders, queues, seen):
    with Tables(orders.root) as tables:
        as_reader_of(tables, *queues)
        answer = find_messages(tables, "18", 10)

    assert [one.message_id for one in answer.messages] == seen


def test_a_viewer_finds_nothing_of_other_vhosts(orders):
    with Tables(orders.root) as tables:
        tables.vhosts = frozenset({"other"})
        assert find_messages(tables, "17", 10).messages == []


def test_the_change_before_a_death_is_named(orders):
    with Tables(orders.root) as tables:
        why = why_of(tables, "0/0/0")

    assert [(one.what, one.name) for one in why.changes] == [("policy set", "parking")]
    assert [(one.queue, one.alike) for one in why.deaths] == [("orders", 1)]


def test_a_message_that_did_not_die_is_said_to_be_where_it_is(orders):
    with Tables(orders.root) as tables:
        why = why_of(tables, "0/0/1")

    assert (why.deaths, why.changes) == ([], [])
    assert [(one.queue, one.state) for one in why.now] == [("orders", "ready")]
    assert list(why.next) == ["dlx dead-letters show 0/0/1"]


def test_a_value_that_arrived_later_is_not_found_as_of_an_instant(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("orders")
    for batch in range(2):
        for place in range(2):
            broker.at(1_000 * (2 * batch + place))
            broker.publish("", "orders", json.dumps({"order": 17, "n": 2 * batch + place}))
        recording.commit()
    SearchIndexer(recording.place, PATHS).update(QUERY_ID)

    def seen(cut):
        with Tables(recording.root) as tables:
            tables.cut = cut
            hits = find_messages(tables, "17", 10).messages
            return sorted(one.message_id for one in hits)

    ids = [f"0/0/{offset}" for offset in range(4)]
    start = datetime.fromtimestamp(START_MS / 1000, UTC)
    assert seen(None) == ids
    assert seen(Cut(0)) == ids[:2]
    assert seen(Cut(0, start + timedelta(milliseconds=2_000))) == ids[:3]
    assert seen(Cut(-1, start)) == ids[:1]


@pytest.mark.parametrize("words", [False, True])
def test_two_messages_of_one_order_are_told_apart(tmp_path, words):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.exchange("shop", "topic")
    broker.queue("parked")
    for name, dead in (("orders", {"dead_letter_exchange": ""}), ("mails", {})):
        broker.queue(name, **({**dead, "dead_letter_routing_key": "parked"} if dead else {}))
        broker.bind("shop", name, name)
    for number, name in enumerate(("orders", "mails")):
        broker.at(number * 60_000)
        broker.publish("shop", name, '{"order": 17}', message_id=f"m-{number}")
        broker.get(name, name, 1)
        broker.reject(f"{name}/0")
    recording.commit()
    SearchIndexer(recording.place, PATHS).update(QUERY_ID)

    messages = {one.name: one for one in found(recording, "17", words=words).messages}
    first, second = messages["m-0"], messages["m-1"]
    assert (first.exchange, first.routing_key, first.targets) == ("shop", "orders", ("parked",))
    assert (second.routing_key, second.targets, second.outcome) == ("mails", (), "no_exchange")
    assert first.published_at != second.published_at


def test_a_message_that_did_not_die_says_how_it_was_published(orders):
    [alive] = found(orders, "18").messages

    assert (alive.exchange, alive.routing_key, alive.name) == ("", "orders", None)
    assert datetime.fromisoformat(alive.published_at or "").year == 2020
