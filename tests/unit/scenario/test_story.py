"""The whole story: topology, steps, and final messages."""

import json

import pytest

from streaming.scenario.document import parse_scenario
from streaming.scenario.story import tell
from tests.unit.scenario.stories import publish, queue, story


def test_a_story_has_topology_steps_and_messages():
    document = {
        "id": "rejected",
        "title": "a rejected message is kept",
        "definitions": {
            "exchanges": [{"name": "failed", "type": "fanout"}],
            "queues": [queue("work", dead_letter_exchange="failed"), queue("parking")],
            "bindings": [{"source": "failed", "destination": "parking"}],
        },
        "steps": [
            {"at_ms": 0, "op": "publish", "routing_key": "work", "body": "order 1"},
            {"at_ms": 50, "op": "get", "queue": "work", "as": "worker", "comment": "the worker"},
            {"at_ms": 1200, "op": "reject", "refs": ["worker/0"]},
        ],
        "end_ms": 2000,
    }

    lines = tell(parse_scenario(json.dumps(document), "file"), "4.0")

    assert (
        "\n".join(line.text for line in lines)
        == """\
rejected: a rejected message is kept
as RabbitMQ 4.0.5 behaves
    queue 'parking': classic
    queue 'work': classic, dead letters go to exchange 'failed'

      0 ms  publish 'order 1' to the default exchange with key 'work'
            'order 1' -> queue 'work', by its name
     50 ms  get a message from queue 'work'
            # the worker
            'order 1' is delivered from queue 'work' as worker/0, and is unacked
   1200 ms  reject worker/0 without requeue
            'order 1' dies in queue 'work': rejected without requeue
                its dead letter goes to exchange 'failed' with key 'work'
            'order 1' -> queue 'parking', as a dead letter, by fanout binding

   2000 ms  the end
    queue 'parking': 1 message
        'order 1'
            x-death[0]: rejected in queue 'work', once; it came through the default exchange \
with key 'work'
            x-first-death-reason, -queue, -exchange: rejected, 'work', ''
            x-last-death-reason, -queue, -exchange: rejected, 'work', ''
    queue 'work': empty

the path of each message
    'order 1': 'work' (rejected) -> 'parking' (still ready)"""
    )


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            {"op": "consume", "queue": "q", "as": "c", "exclusive": True},
            "consumer 'c' subscribes to queue 'q', exclusively",
        ),
        (
            {"op": "consume", "queue": "q", "as": "c", "arguments": {"x-priority": 3}},
            "consumer 'c' subscribes to queue 'q' {\"x-priority\":3}",
        ),
        (
            {"op": "qos", "prefetch": 2, "global": True},
            "prefetch of all consumers together on channel 'c0': 2",
        ),
        (
            {"op": "qos", "prefetch": 0},
            "prefetch of each new consumer on channel 'c0': no limit",
        ),
        ({"op": "flow", "active": False}, "stop deliveries on channel 'c0'"),
        ({"op": "flow", "active": True}, "resume deliveries on channel 'c0'"),
        ({"op": "settle", "tag": 2}, "ack delivery tag 2 of channel 'c0'"),
        (
            {"op": "settle", "tag": 2, "last": 4, "outcome": "reject", "reason": "bad"},
            "reject delivery tags 2 to 4 of channel 'c0' because: bad",
        ),
        (
            {"op": "settle", "tag": 2, "multiple": True, "outcome": "requeue"},
            "requeue delivery tag 2 and every earlier delivery of channel 'c0'",
        ),
        (
            {"op": "settle", "tag": 0, "multiple": True},
            "ack every delivery of channel 'c0'",
        ),
        ({"op": "recover"}, "recover: requeue everything unacked on channel 'c0'"),
        ({"op": "close_channel"}, "close channel 'c0'"),
        ({"op": "close_connection", "connection": "n"}, "close connection 'n'"),
        (
            {"op": "declare_queue", "queue": queue("n", max_length=1)},
            "declare queue 'n' {\"x-max-length\":1}",
        ),
        ({"op": "declare_exchange", "exchange": {"name": "e"}}, "declare direct exchange 'e'"),
        (
            {"op": "declare_exchange", "exchange": {"name": "e", "arguments": {"a": {"b": 1}}}},
            'declare direct exchange \'e\' {"a":{"b":1}}',
        ),
        (
            {
                "op": "bind",
                "binding": {"source": "amq.topic", "destination": "q", "arguments": {"a": 1}},
            },
            "bind queue 'q' to exchange 'amq.topic' with key '' {\"a\":1}",
        ),
        (
            {"op": "unbind", "binding": {"source": "amq.topic", "destination": "q"}},
            "unbind queue 'q' from exchange 'amq.topic' with key ''",
        ),
        (
            {
                "op": "set_policy",
                "policy": {"name": "p", "pattern": "q", "definition": {"expires": 9}},
            },
            "set policy 'p' for names like 'q': {\"expires\":9}",
        ),
        ({"op": "clear_operator_policy", "name": "p"}, "clear operator policy 'p'"),
        ({"op": "delete_exchange", "exchange": "e"}, "delete exchange 'e'"),
        ({"op": "tick"}, "tick"),
    ],
)
def test_every_step_has_a_description(step, words):
    assert story(step, queues=[queue()])[0] == f"      0 ms  {words}"


def test_a_story_begins_with_the_effective_settings_of_queues():
    document = {
        "id": "s",
        "definitions": {
            "queues": [
                queue(
                    "full",
                    message_ttl=5,
                    expires=9,
                    max_length=1,
                    max_length_bytes=20,
                    overflow="reject-publish",
                    max_priority=3,
                    dead_letter_exchange="",
                    dead_letter_routing_key="k",
                    alternate_exchange="amq.fanout",
                ),
                queue(
                    "safe",
                    queue_type="quorum",
                    overflow="reject-publish",
                    dead_letter_exchange="x",
                    dead_letter_strategy="at-least-once",
                ),
            ]
        },
        "steps": [],
        "end_ms": 0,
    }

    lines = [line.text for line in tell(parse_scenario(json.dumps(document), "s"), "3.10")]

    assert lines[:5] == [
        "s",
        "as RabbitMQ 3.10.8 behaves",
        "    queue 'full': classic, messages expire after 5 ms, at most 1 message and 20 bytes "
        "ready, then reject-publish, priorities up to 3, deleted when unused for 9 ms, "
        "dead letters go to the default exchange with key 'k', "
        "rejected and orphaned go to exchange 'amq.fanout'",
        "    queue 'safe': quorum, dead letters go to exchange 'x', at least once",
        "",
    ]


def test_refused_definitions_are_the_whole_story():
    lines = story(publish("a"), queues=[queue(message_ttl=-1)])

    assert lines == [
        "s",
        "as RabbitMQ 4.0.5 behaves",
        "the broker refuses the definitions: 406 PRECONDITION_FAILED - invalid arg 'x-message-ttl' "
        "for queue 'q' in vhost '<vhost>': {value_negative,-1}",
    ]


def test_equal_bodies_are_numbered_and_long_ones_shortened():
    lines = story(publish("a"), publish("a"), publish("b" * 100), queues=[queue()])

    assert lines[-3:] == [
        "    'a' #1: 'q' (still ready)",
        "    'a' #2: 'q' (still ready)",
        f"    '{'b' * 60}...': 'q' (still ready)",
    ]


def test_control_characters_of_a_body_are_escaped():
    lines = story(publish("\x1b[2J"), queues=[queue()])

    assert lines[1] == r"            '\x1b[2J' -> queue 'q', by its name"


def test_moves_caused_by_the_final_observation_are_described():
    """A head that is taken exposes the expired message behind it: R-TTL-4."""
    lines = story(
        publish("head", "z"),
        publish("behind", "z", properties={"expiration": "50"}),
        queues=[
            queue("z", dead_letter_exchange="", dead_letter_routing_key="a"),
            queue("a"),
        ],
    )

    end = lines.index("   1000 ms  the end")
    assert lines[end + 1 : end + 9] == [
        "            consumers are cancelled; then the queues are emptied, head by head",
        "            'behind' dies in queue 'z': expired, 50 ms after it arrived",
        "                its dead letter goes to the default exchange with key 'a'",
        "            'behind' -> queue 'a', as a dead letter, by its name",
        "    queue 'a': empty",
        "    queue 'z': 1 message",
        "        'head'",
        "    queue 'a', a little later: 1 message",
    ]
    assert lines[-2:] == ["    'head': 'z' (still ready)", "    'behind': 'z' (still ready)"]


def test_an_invalid_x_death_is_shown_unchanged():
    made_up = {"x-death": [{"count": 7, "reason": 1, "queue": [], "routing-keys": [2]}, "no"]}
    lines = story(publish("a", properties={"headers": made_up}), queues=[queue()], compat="3.10")

    assert "            x-death[0]: 1 in queue '[]', 7 times with key '2'" in lines


def test_the_paths_of_a_cyclic_fan_out_are_shortened():
    names = [f"q{index}" for index in range(12)]
    lines = story(
        publish("a", exchange="amq.fanout"),
        queues=[queue(name) for name in names],
        bindings=[{"source": "amq.fanout", "destination": name} for name in names],
    )

    assert lines[-12:] == [
        "    'a'",
        *(f"        '{name}' (still ready)" for name in sorted(names)[:10]),
        "        ... and 2 more paths",
    ]
