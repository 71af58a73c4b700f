"""`dlx dead-letters get`: which queue it takes the message from."""

import pytest

from streaming.cli.job.dead_letters import CopyState, ack_command, ready_place
from streaming.queries.message_history import MessageHistory
from topology.errors import DlxError

VHOSTS = {"work": "/", "dead": "/", "failed": "/"}


def history_of(**states):
    """A message with a copy in each queue that is named, in that state; "" for a copy that left."""
    events = [
        {"copy_id": number, "vhost": VHOSTS[queue], "queue": queue}
        for number, queue in enumerate(states)
    ]
    now = {number: state for number, state in enumerate(states.values()) if state}
    return MessageHistory("1/0/42", None, [*events, {"copy_id": None}], {7: {}}, now)


@pytest.mark.parametrize(
    ("states", "options", "queue"),
    [
        ({"work": "", "dead": "ready"}, {}, "dead"),
        ({"dead": "ready", "failed": "unacked"}, {}, "dead"),
        ({"dead": "ready", "failed": "ready"}, {"queue": "failed"}, "failed"),
        ({"dead": "ready"}, {"queue": "dead", "vhost": "/"}, "dead"),
    ],
)
def test_the_queue_that_has_it_ready_is_found(states, options, queue):
    place = ready_place(history_of(**states), options.get("queue"), options.get("vhost"))

    assert place == CopyState("/", queue, "ready")


@pytest.mark.parametrize(
    ("states", "options", "words"),
    [
        ({"work": ""}, {}, ["no queue", "dlx dead-letters show 1/0/42"]),
        ({}, {}, ["no queue", "dlx dead-letters show 1/0/42"]),
        ({"dead": "unacked"}, {}, ["unacked", "'dead'", "dlx dead-letters show 1/0/42"]),
        ({"dead": "held"}, {}, ["held", "'dead'"]),
        ({"dead": "ready", "failed": "ready"}, {}, ["'dead'", "'failed'", "--queue"]),
        ({"dead": "ready"}, {"queue": "daed"}, ["--queue", "'dead'"]),
        ({"dead": "ready"}, {"vhost": "other"}, ["--vhost", "'/'"]),
    ],
)
def test_otherwise_the_error_says_where_it_is(states, options, words):
    with pytest.raises(DlxError) as caught:
        ready_place(history_of(**states), options.get("queue"), options.get("vhost"))

    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(("vhost", "option"), [("/", ""), ("the shop", " --vhost 'the shop'")])
def test_a_message_that_never_died_is_refused_with_the_command_that_gets_it(vhost, option):
    events = [{"copy_id": 0, "vhost": vhost, "queue": "work"}]
    history = MessageHistory("1/0/0", None, events, {}, {0: "ready"})

    with pytest.raises(DlxError) as caught:
        ready_place(history, None, None)

    assert f"queue 'work' of vhost {vhost!r}" in str(caught.value)
    assert f"`dlx get work --message 1/0/0{option}`" in str(caught.value)


def test_the_command_that_settles_has_every_option_that_is_not_the_default():
    given = {"--channel": ("cli", "cli"), "--vhost": ("the shop", "/"), "--config": ("my.toml", "")}

    assert ack_command("2.0.0", given) == "dlx ack 2.0.0 --vhost 'the shop' --config my.toml"
    assert ack_command("2.0.0", {}) == "dlx ack 2.0.0"
