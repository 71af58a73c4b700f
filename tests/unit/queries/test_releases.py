"""Which release came before deaths, and how many died before and after a release."""

from datetime import datetime, timedelta

import pytest

from streaming.broker import commands
from streaming.queries.duckdb_tables import Tables
from streaming.queries.vhosts.releases import (
    DeathsAround,
    deaths_around,
    release_before,
    releases,
)
from tests.builders import Broker
from tests.unit.queries.recording import Recording

MINUTE_MS = 60_000


@pytest.fixture
def tables(tmp_path):
    """`orders` and `mail` drop one message each, then a release of `orders`, then three and one."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    for name in ("orders", "mail"):
        broker.queue(name, max_length=1)
        broker.publish("", name, "first")
        broker.publish("", name, "second")
    broker.at(10 * MINUTE_MS)
    deployed = commands.Deployed(service="worker", version="2.1", queues=("orders",))
    broker.do(deployed, user="anna")
    broker.at(11 * MINUTE_MS)
    for name in ("orders", "orders", "orders", "mail"):
        broker.publish("", name, "late")
    broker.at(20 * MINUTE_MS)
    broker.do(commands.Deployed(service="gateway", version="3"))
    broker.at(75 * MINUTE_MS)
    broker.publish("", "orders", "much later")
    recording.commit()
    recording.close()
    with Tables(recording.root) as opened:
        yield opened


def test_the_latest_release_before_an_instant_concerns_the_queue(tables):
    known = releases(tables)

    assert [one.name for one in known] == ["gateway 3", "worker 2.1"]
    late = datetime.fromisoformat(known[0].at) + timedelta(minutes=1)
    early = datetime.fromisoformat(known[1].at) + timedelta(minutes=1)

    def name_before(queue, at, vhost="/"):
        found = release_before(known, vhost, queue, at)
        return None if found is None else found.name

    assert name_before("orders", late) == "gateway 3"
    assert name_before("orders", early) == "worker 2.1"
    assert name_before("mail", early) is None, "the release names another queue"
    assert name_before("orders", late, "other") is None
    assert name_before("orders", datetime.fromisoformat(known[1].at) - timedelta(minutes=1)) is None


def test_deaths_are_counted_in_the_hours_before_and_after_a_release(tables):
    known = releases(tables)
    end = datetime.fromisoformat(known[0].at) + timedelta(minutes=55)

    assert deaths_around(tables, known, end) == [
        DeathsAround(before=6, after=1, is_over=False, is_whole=False),
        DeathsAround(before=1, after=3, is_over=True, is_whole=False),
    ], "the tables begin within these hours"
    assert deaths_around(tables, [], end) == []


def test_what_died_at_the_instant_of_a_release_died_before_it(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("orders", max_length=1)
    broker.publish("", "orders", "first")
    broker.at(10 * MINUTE_MS)
    broker.publish("", "orders", "second")
    broker.do(commands.Deployed(service="worker", version="2.1"))
    recording.commit()
    recording.close()
    with Tables(recording.root) as tables:
        [release] = known = releases(tables)
        at = datetime.fromisoformat(release.at)
        [around] = deaths_around(tables, known, at)

        assert (around.before, around.after) == (1, 0)
        assert release_before(known, "/", "orders", at) is None
