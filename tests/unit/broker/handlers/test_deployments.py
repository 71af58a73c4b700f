"""Deployments: noted beside the changes of a vhost, which stays as it is."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.state.vhost_codec import encode_vhost
from tests.builders import Broker


def deployed(**members):
    return commands.Deployed(**({"service": "worker", "version": "2.4.1"} | members))


def test_it_is_an_event_and_changes_nothing():
    broker = Broker()
    broker.queue("work")
    before, version = encode_vhost(broker.shard.vhost), broker.shard.vhost.version
    known = len(broker.of_kind(Kind.TOPOLOGY))

    broker.do(deployed())
    broker.do(deployed(queues=("work", "work"), reason="faster"))

    told = {"what": "deployed", "name": "worker", "version": "2.4.1"}
    assert [detail for _, detail in broker.of_kind(Kind.TOPOLOGY)][known:] == [
        told,
        {**told, "queues": ["work"], "reason": "faster"},
    ]
    assert (encode_vhost(broker.shard.vhost), broker.shard.vhost.version) == (before, version)


@pytest.mark.parametrize(
    ("members", "code", "text"),
    [
        ({"service": " "}, 406, "the service of a deployment must be text, not ' '"),
        ({"version": ""}, 406, "the version of a deployment must be text, not ''"),
        ({"version": "1\n2"}, 406, "the version of a deployment must be text, not '1\\n2'"),
        (
            {"reason": "r" * 1_025},
            406,
            "the reason of a deployment has 1025 characters, and 1024 is the limit",
        ),
        ({"queues": ("work", "wrok")}, 404, "no queue 'wrok' in vhost '/'"),
    ],
)
def test_nonsense_is_refused_in_words(members, code, text):
    broker = Broker()
    broker.queue("work")
    known = len(broker.of_kind(Kind.TOPOLOGY))

    refusal = broker.refusal(deployed(**members))

    assert refusal is not None
    assert (refusal.code, refusal.text.partition(" - ")[2]) == (code, text)
    assert len(broker.of_kind(Kind.TOPOLOGY)) == known


def test_only_an_administrator_may_note_one():
    broker = Broker(enforce_permissions=True)

    refusal = broker.refusal(deployed(), user="ann")

    assert refusal is not None
    assert refusal.code == 403
