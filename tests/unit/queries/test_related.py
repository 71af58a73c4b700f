"""Messages of one order belong together: by an indexed value, or by a correlation id."""

import json

import pytest

from streaming.contents.search_index import SearchIndexer
from streaming.contents.updater import ContentsUpdater
from streaming.queries.duckdb_tables import Tables
from streaming.queries.life.related import MAX_RELATED, related_to
from streaming.queries.message_history import history_of
from streaming.queries.read_rights import ReadRights
from tests.builders import Broker
from tests.unit.queries.recording import QUERY_ID, Recording

PATHS = ("body:$.order", "header:tenant")


def an_order(root):
    """Order 17 died; its consumer parked it and asked for it; many messages are of one tenant."""
    broker = Broker()
    recording = Recording(root, broker)
    broker.queue("orders", dead_letter_exchange="", dead_letter_routing_key="dead")
    for name in ("dead", "parked", "answers"):
        broker.queue(name)
    body, tenant = json.dumps({"order": 17}), {"tenant": "acme"}
    broker.publish("", "orders", body, headers=tenant, message_id="shop-17")
    broker.get("orders", "g", 1, channel="worker")
    broker.publish("", "parked", body, channel="worker", user="worker")
    broker.publish("", "answers", "lost", channel="worker", correlation_id="shop-17")
    broker.reject("g/0", channel="worker")
    recording.commit()
    for _ in range(MAX_RELATED + 1):
        broker.publish("", "answers", "x", headers=tenant)
    recording.commit()
    SearchIndexer(recording.place, PATHS).update(QUERY_ID)
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    return an_order(tmp_path_factory.mktemp("orders") / "tables")


def related(root, name, rights=None):
    with Tables(root) as tables:
        tables.rights = rights
        return related_to(tables, history_of(tables, name))


def test_a_letter_leads_to_what_its_consumer_published_for_it(orders):
    answer = related(orders, "0/0/0")

    assert [(one.message_id, one.by, one.value, one.routing_key) for one in answer.messages] == [
        ("0/0/1", "body:$.order", "17", "parked"),
        ("0/0/2", "property:correlation_id", "shop-17", "answers"),
    ]
    assert answer.messages[0].found.at is None
    assert answer.common == {"header:tenant": "acme"}


def test_what_was_published_for_a_letter_leads_to_the_letter_and_its_death(orders):
    for name in ("0/0/1", "0/0/2"):
        [letter, *_] = related(orders, name).messages

        assert (letter.message_id, letter.found.queue, letter.found.reason) == (
            *("0/0/0", "orders"),
            "rejected",
        )


def test_what_a_user_may_not_read_is_not_named(orders):
    nobody = ReadRights("anna", {}, [("/", "dead")])

    assert related(orders, "0/0/0", nobody).messages == []
    assert related(orders, "0/0/1", nobody).messages == []
