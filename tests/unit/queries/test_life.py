"""A message's life: its copies, and the scenario that replays it."""

import json

import pytest

from streaming.broker import commands
from streaming.queries.duckdb_tables import Tables
from streaming.queries.life.copies import copies_of
from streaming.queries.life.scenario import body_bytes, scenario_of
from streaming.queries.message_history import history_of
from streaming.scenario.document import parse_scenario
from streaming.scenario.play import play
from tests.builders import Broker
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import Recording


def tables_of(recording):
    recording.commit()
    recording.close()
    return Tables(recording.root)


def test_a_copy_has_its_holders_its_end_and_what_came_from_it(shop):
    first, second = copies_of(history_of(shop, "0/0/0"))

    assert (first.copy_id, first.queue, first.depth, first.children) == (10, "billing", 0, [16])
    assert [(hold.user, hold.channel, hold.end) for hold in first.holds] == [
        ("anna", "clerk", "died")
    ]
    assert (first.end, first.reason, first.targets) == ("died", "rejected", ["dead"])
    assert [death["queue"] for death in first.x_death] == ["billing"]
    assert (second.copy_id, second.depth, second.end) == (16, 1, "consumed")


def test_a_copy_that_is_held_has_no_end(shop):
    [copy] = copies_of(history_of(shop, "0/0/5"))

    assert (copy.end, copy.holds[0].end, copy.holds[0].until) == (None, None, None)


@pytest.mark.parametrize("offset", range(9))
def test_every_life_of_the_shop_replays_to_the_same_deaths(shop, offset):
    history = history_of(shop, f"0/0/{offset}")
    replay = scenario_of(shop, history)

    scenario = parse_scenario(json.dumps(replay.document), "x")
    outcome = play(scenario)
    assert replay.is_same
    assert [queue for queue, *_ in replay.recorded] == [
        death["queue"] for _, death in sorted(history.deaths.items())
    ]
    assert {
        queue: [one["body"] for one in found]
        for queue, found in outcome["queues"].items()
        if queue in replay.document["expect"]
    } == {
        queue: [one["body"] for one in messages]
        for queue, messages in replay.document["expect"].items()
    }
    assert shop.cut is None


def test_the_messages_that_filled_a_queue_fill_it_in_the_scenario(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.exchange("dlx", "fanout")
    broker.queue("work", max_length=2, dead_letter_exchange="dlx")
    broker.queue("dead")
    broker.bind("dlx", "dead")
    for number in range(4):
        broker.at(1000 * number)
        broker.publish("", "work", f"order {number}")
    tables = tables_of(recording)

    replay = scenario_of(tables, history_of(tables, "0/0/1"))

    assert replay.recorded == replay.played == [("work", "maxlen", ("dead",))]
    others = [step for step in replay.document["steps"] if step.get("channel") == "others"]
    assert [(step["at_ms"], step["body"]) for step in others] == [
        (1000, "xxxxxxx"),
        (2000, "xxxxxxx"),
    ]


def test_the_topology_changes_in_the_scenario_when_it_changed(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.exchange("dlx", "fanout")
    broker.queue("work", dead_letter_exchange="dlx")
    broker.publish("", "work", "order")
    broker.at(50)
    broker.queue("dead")
    broker.bind("dlx", "dead")
    broker.policy("short", "dead", {"message-ttl": 20})
    broker.get("work", "g", 1, channel="c")
    broker.do(commands.Reject(refs=("g/0",), channel="c"))
    broker.at(100)
    tables = tables_of(recording)

    replay = scenario_of(tables, history_of(tables, "0/0/0"))

    assert replay.recorded == [("work", "rejected", ("dead",)), ("dead", "expired", ())]
    assert replay.is_same
    assert [step["op"] for step in replay.document["steps"]] == [
        *("publish", "declare_queue", "bind", "set_policy", "get", "reject"),
    ]


def test_a_delivery_limit_and_a_closed_channel_replay(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", queue_type="quorum", delivery_limit=2)
    broker.publish("", "work", "order")
    for number, close in enumerate((False, True, False)):
        broker.at(10 * number)
        broker.get("work", f"g{number}", 1, channel=f"c{number}")
        if close:
            broker.close_channel(f"c{number}")
        else:
            refs = (f"g{number}/0",)
            broker.do(commands.Reject(refs=refs, channel=f"c{number}", requeue=True))
    tables = tables_of(recording)

    replay = scenario_of(tables, history_of(tables, "0/0/0"))

    assert replay.recorded == [("work", "delivery_limit", ())]
    assert replay.is_same
    assert "close_channel" in [step["op"] for step in replay.document["steps"]]


def test_random_lives_are_readable_scenarios_and_most_replay(tmp_path):
    random = RandomPlay(1)
    recording = Recording(tmp_path / "tables", random.broker)
    random.steps(200)
    tables = tables_of(recording)
    tables.view("dead_letters")
    [offsets] = tables.values(
        'SELECT list(DISTINCT message_id."offset" ORDER BY message_id."offset") FROM dead_letters'
    )
    replays = [scenario_of(tables, history_of(tables, f"0/0/{one}")) for one in offsets[0]]

    assert len(replays) > 10
    assert sum(replay.is_same for replay in replays) > len(replays) / 2


def test_a_body_is_its_bytes_again(shop):
    history = history_of(shop, "0/0/2")

    assert history.message is not None
    assert body_bytes(history.message) == "order 2 \x07é\nline".encode()
    assert body_bytes({"body": {"$bytes": "/wA="}}) == b"\xff\x00"
