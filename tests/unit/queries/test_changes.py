"""Which changes concern a queue, and who made them."""

from datetime import UTC, datetime, timedelta

import pytest

from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.queries.actions import ACTIONS, list_actions
from streaming.queries.duckdb_tables import Tables
from streaming.queries.vhosts.changes import changes_in, concerning
from streaming.queries.vhosts.declared import declared
from tests.builders import START_MS, Broker
from tests.unit.queries.recording import Recording
from topology.declarations import Binding

START = datetime.fromtimestamp(START_MS / 1000, UTC)


def wired(broker):
    """`out` -> `in` -> work -> letters -> dead; `else` -> other."""
    for name in ("out", "in", "letters", "else"):
        broker.exchange(name, "topic")
    broker.queue("work", dead_letter_exchange="letters")
    broker.queue("dead")
    broker.queue("other")
    broker.bind("in", "work", "#")
    broker.bind("letters", "dead", "#")
    broker.bind("else", "other", "#")
    broker.do(commands.Bind(binding=Binding("out", "in", "exchange", "#")))


def concerned(root, broker, do, queue="work"):
    """The changes that concern a queue, of those that follow once all is declared."""
    recording = Recording(root, broker)
    wired(broker)
    recording.commit()
    broker.at(1_000)
    do(broker)
    broker.at(2_000)
    recording.commit()
    with Tables(recording.root) as tables:
        found = changes_in(tables, START + timedelta(seconds=1), START + timedelta(seconds=2))
        chosen = concerning(found, "/", queue, declared(tables)["/"])
        return [f"{one.change.what} {one.change.name}" for one in chosen]


def unbind(broker, source, destination):
    broker.do(commands.Unbind(binding=Binding(source, destination, routing_key="#")))


def deploy(broker, version, *queues):
    broker.do(commands.Deployed(service="worker", version=version, queues=queues))


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        (lambda one: one.policy("p", "^work$", {"max-length": 1}), ["policy set p"]),
        (lambda one: one.policy("p", "^other$", {"max-length": 1}), []),
        (lambda one: one.policy("p", "^out$", {"alternate-exchange": "else"}), ["policy set p"]),
        (lambda one: one.policy("p", "^letters$", {"alternate-exchange": "a"}), ["policy set p"]),
        (lambda one: one.bind("else", "work", "a"), ["bound work to else"]),
        (lambda one: one.bind("out", "other", "a"), []),
        (lambda one: unbind(one, "in", "work"), ["unbound work from in"]),
        (lambda one: unbind(one, "else", "other"), []),
        (lambda one: one.do(commands.DeleteExchange(exchange="in")), ["exchange deleted in"]),
        (lambda one: one.do(commands.DeleteQueue(queue="work")), ["queue deleted work"]),
        (lambda one: one.do(commands.DeleteQueue(queue="other")), []),
        (lambda one: one.queue("fourth"), []),
        (lambda one: one.exchange("fifth", "fanout"), []),
        (lambda one: deploy(one, "1"), ["deployed worker 1"]),
        (lambda one: deploy(one, "1", "other", "work"), ["deployed worker 1"]),
        (lambda one: deploy(one, "1", "other"), []),
        (
            lambda one: one.do(
                commands.SetPermissions(user="ann", configure="", write="", read="work")
            ),
            [],
        ),
    ],
)
def test_a_change_concerns_a_queue(tmp_path, do, expected):
    assert concerned(tmp_path, Broker(), do) == expected


def test_a_policy_that_was_changed_or_removed_concerns_what_it_matched(tmp_path):
    def do(broker):
        broker.policy("ours", "^work$", {"max-length": 1})
        broker.policy("theirs", "^other$", {"max-length": 1})
        broker.policy("ours", "^other$", {"max-length": 1})
        broker.policy("ours", "^dead$", {"max-length": 1})
        for name in ("theirs", "ours"):
            broker.do(commands.ClearPolicy(name=name))

    assert concerned(tmp_path, Broker(), do) == ["policy set ours", "policy set ours"]


def test_a_policy_of_which_only_the_end_is_known_may_concern_all(tmp_path):
    broker = Broker()
    broker.policy("old", "^other$", {"max-length": 1})

    def do(broker):
        broker.do(commands.ClearPolicy(name="old"))

    assert concerned(tmp_path, broker, do) == ["policy cleared old"]


def test_each_action_lists_its_own_events(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    broker.policy("p", "^work$", {"max-length": 1})
    broker.do(commands.SetPermissions(user="ann", configure="", write="", read="work"))
    deploy(broker, "1")
    broker.publish("", "work", "m")
    broker.do(commands.Purge(queue="work"))
    recording.commit()

    with Tables(recording.root) as tables:
        found = {
            action: [row["what"] for row in list_actions(tables, action=action).rows]
            for action in ACTIONS
        }

    assert found == {
        "redrives": [],
        "purges": ["purged"],
        "erasures": [],
        "deployments": ["deployed"],
        "policies": ["policy_set"],
        "permissions": ["permissions_set"],
        "definitions": ["queue_declared"],
    }


def test_a_change_by_the_management_api_names_its_user(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    command = commands.Deployed(service="worker", version="2")
    broker.shard.command(broker.time_ms, command, Actor(None, "management ann lee 12"))
    recording.commit()

    with Tables(recording.root) as tables:
        [found] = changes_in(tables, START, START + timedelta(seconds=1))
        [row] = list_actions(tables, action="deployments", user="ann lee").rows
        assert list_actions(tables, action="definitions").rows == []

    assert found.change.user == row["user"] == "ann lee"
