"""The queries behind the metrics, on the ledger of a shop."""

import pytest

from streaming.contents.updater import ContentsUpdater
from streaming.queries.dead_letters.waiting import waiting_queues
from streaming.queries.duckdb_tables import Tables
from streaming.queries.job_totals import (
    earliest_event_s,
    last_batches,
    totals_through,
)
from tests.builders import Broker
from tests.unit.queries.recording import Recording


@pytest.fixture
def recording(tmp_path):
    """Two batches: a message is published, and one of another two dies."""
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.publish("", "work", "order 0")
    recording.commit()
    broker.publish("", "work", "order 1")
    broker.get("work", "g", 1)
    broker.reject("g/0")
    recording.commit()
    ContentsUpdater(recording.place).update()
    return recording


def test_totals_end_with_the_batch_that_is_asked(recording, tmp_path):
    tables = Tables(str(tmp_path))
    [newest, oldest] = last_batches(tables, 10)
    assert newest.batch_id == oldest.batch_id + 1

    tables.view("events", columns=["query_id"])
    [(query,)] = tables.values("SELECT DISTINCT query_id FROM events")
    first = totals_through(tables, query, oldest.batch_id)
    both = totals_through(tables, query, newest.batch_id)
    others = totals_through(tables, "another-query", -1)

    assert first.kinds["/", "work"] == {"enqueued": 1, "published": 1, "redelivered": 0}
    assert first.deaths == {}
    assert both.deaths == {("/", "work", "rejected", "dead_lettered"): 1}
    assert both.kinds["/", "work"]["died"] == 1
    assert both.kinds["/", "dead"]["enqueued"] == 1
    assert both.kinds["/", "dead"]["published"] == 0
    assert others == both


def test_dead_letters_wait_where_a_death_brought_them(recording, tmp_path):
    [waiting] = waiting_queues(Tables(str(tmp_path)))

    assert (waiting.vhost, waiting.queue, waiting.count) == ("/", "dead", 1)
    assert waiting.oldest_s > 0
    earliest_s = earliest_event_s(Tables(str(tmp_path)))
    assert earliest_s is not None
    assert earliest_s <= waiting.oldest_s
