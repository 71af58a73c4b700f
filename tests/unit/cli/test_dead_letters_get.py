"""`dlx dead-letters get`: which queue it takes the message from."""

import pytest

from streaming.cli.job.dead_letters import Place, ready_place
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
    return MessageHistory("1/0/42", None, [*events, {"copy_id": None}], {}, now)


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

    assert place == Place("/", queue, "ready")


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
