"""`dlx topology replay`: the recorded log with another topology."""

import json

import pytest

from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Tables
from streaming.queries.life.what_if import what_if
from streaming.queries.vhosts.declared import declared
from tests.builders import Broker
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import Recording
from topology.definitions.dump import dump_definitions


def document_of(tables):
    return dump_definitions({name: one.definitions() for name, one in declared(tables).items()})


@pytest.fixture
def document(shop_root):
    return document_of(Tables(shop_root))


def replayed(dlx, shop_root, file, *options):
    arguments = ("--definitions", file, "--tables", shop_root)
    return dlx("topology", "replay", *arguments, "--processes", 1, *options)


def test_the_same_topology_gives_the_same_fates(dlx, shop_root, document, write):
    status, out, err = replayed(dlx, shop_root, write(document))

    assert (status, out) == (0, "every message would have had the same fate\n")
    assert err.startswith("replayed 9 publishes, with 0 copies")


def test_another_topology_gives_other_fates(dlx, shop_root, document, write):
    for queue in document["queues"]:
        if queue["name"] == "mail":
            queue["arguments"] = {}
    _, out, _ = replayed(dlx, shop_root, write(document), "--json")

    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["queue"], row["fate"], row["recorded"], row["replayed"]) for row in rows] == [
        ("dead", "enqueued", 2, 1),
        ("dead", "waiting", 1, 0),
        ("mail", "died", 1, 0),
        ("mail", "waiting", 0, 1),
    ]


def test_what_was_in_the_queues_is_there_at_the_beginning(dlx, shop_root, document, write):
    file = write(document)
    arguments = ("--definitions", file, "--tables", shop_root, "--processes", 1)
    status, out, err = dlx("topology", "replay", "--since", "0", *arguments, "--all", "--json")

    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert all(row["difference"] == 0 for row in rows)
    assert ("dead", "waiting", 1) in {(row["queue"], row["fate"], row["replayed"]) for row in rows}
    assert err.startswith("replayed 6 publishes, with 1 copies")


def test_what_was_in_a_queue_that_is_gone_is_lost(dlx, shop_root, document, write):
    document["queues"] = [one for one in document["queues"] if one["name"] != "dead"]
    document["bindings"] = [one for one in document["bindings"] if one["destination"] != "dead"]
    arguments = ("--since", "0", "--all", "--json")
    _, out, _ = replayed(dlx, shop_root, write(document), *arguments)

    rows = [json.loads(line) for line in out.splitlines()]
    assert min(row["replayed"] for row in rows) == 0
    fates = {(row["queue"], row["fate"], row["reason"]): row["replayed"] for row in rows}
    assert fates["dead", "lost", "no_queue"] == 1
    assert fates["dead", "waiting", ""] == 0


def test_an_unknown_vhost_and_a_broken_file_are_refused(dlx, shop_root, write):
    status, out, err = replayed(dlx, shop_root, write({"vhosts": [{"name": "other"}]}))
    assert (status, out) == (2, "")
    assert "no vhost of the tables: '/'" in err

    status, out, err = replayed(dlx, shop_root, write("{", "broken.json"))
    assert (status, out) == (2, "")
    assert "broken.json" in err


def test_the_answer_is_the_same_each_time_and_balances(tmp_path):
    random = RandomPlay(3)
    recording = Recording(tmp_path / "tables", random.broker)
    for _ in range(3):
        random.steps(80)
        recording.commit()
    recording.close()
    tables = Tables(recording.root)
    document = json.dumps(document_of(tables)).encode()

    first, second = (what_if(tables, Cut(0), document) for _ in range(2))

    assert first == second
    assert first.publishes > 10
    waiting = sum(one.replayed for one in first.fates if one.fate == "waiting")
    assert waiting >= 0


@pytest.fixture
def shared_queues(tmp_path):
    """Tables with copies that came into their queues in different ways."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("retry", message_ttl=60_000, dead_letter_exchange="", dead_letter_routing_key="up")
    broker.queue("up", max_priority=5)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="up")
    broker.publish("", "work", "rejected", headers={"tenant": "acme"})
    broker.publish("", "work", "held")
    broker.publish("", "retry", "expires", expiration="50000")
    for priority in (1, 4):
        broker.publish("", "up", f"priority {priority}", priority=priority)
    broker.get("work", "g", 2)
    broker.reject("g/0")
    return recording


def fates_after(recording, later):
    recording.commit()
    later()
    recording.commit()
    recording.close()
    tables = Tables(recording.root)
    document = json.dumps(document_of(tables)).encode()
    return what_if(tables, Cut(0), document)


def test_copies_at_the_beginning_keep_their_age_expiration_priority_and_holder(
    shared_queues,
):
    [broker] = shared_queues.brokers

    def later():
        broker.at(55_000)
        broker.ack("g/1")
        given = broker.get("up", "h", 4)
        broker.ack(*(one.ref for one in given))

    found = fates_after(shared_queues, later)

    assert (found.resident, found.unplayed) == (5, 0)
    assert [one for one in found.fates if one.recorded != one.replayed] == []
    died = [one for one in found.fates if one.fate == "died"]
    assert [(one.queue, one.reason, one.replayed) for one in died] == [("retry", "expired", 1)]


def test_copies_at_the_beginning_know_their_deaths(tmp_path):
    """A cycle through two queues that expire ends at once, since x-death knows it."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("first", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="b")
    broker.queue("b", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="first")
    broker.publish("", "first", "order")
    broker.at(1_500)

    found = fates_after(recording, lambda: broker.at(9_000))

    assert [one for one in found.fates if one.recorded != one.replayed] == []
    assert ("b", "lost", "cycle", 1) in {
        (one.queue, one.fate, one.reason, one.replayed) for one in found.fates
    }
