"""The headers of a message: as published, without those dropped, with those added."""

import pytest

from streaming.broker.config import ShardConfig
from streaming.broker.dead_letters.x_death import death_headers, delivered_headers, headers_after
from streaming.broker.events import CLOCK
from streaming.broker.message import Death, DeathNote, Envelope, Message, Publication
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore

DEATH = Death(1, "rejected", "work", 0, "", ("work",))


@pytest.mark.parametrize(
    ("published", "dropped", "added", "own"),
    [
        (None, (), None, None),
        (None, ("CC",), {"id": 1}, {"id": 1}),
        ({}, (), None, {}),
        ({"a": 1, "CC": []}, ("CC", "BCC"), None, {"a": 1}),
        ({"a": 1}, (), {"a": 2, "id": 1}, {"a": 2, "id": 1}),
    ],
)
def test_own_headers_are_those_published_without_dropped_with_added(published, dropped, added, own):
    envelope = Envelope("", ("k",), dropped=dropped, added=added)

    assert headers_after(envelope, published) == own
    assert delivered_headers(envelope, published) == own
    assert death_headers(envelope) == (added or {})


def test_a_dead_message_has_its_deaths_in_place_of_what_was_published_under_their_names():
    envelope = Envelope(
        "", ("k",), deaths=(DEATH,), last_death=DeathNote("rejected", "work", ""), added={"id": 1}
    )

    headers = delivered_headers(envelope, {"x-death": "odd", "x-last-death-queue": 1, "a": 1})

    assert headers == {"a": 1, **death_headers(envelope)}
    assert list(death_headers(envelope)) == [
        "id",
        "x-death",
        "x-last-death-reason",
        "x-last-death-queue",
        "x-last-death-exchange",
    ]


def test_a_shard_without_a_port_for_headers_cannot_serve_a_headers_exchange():
    shard = Shard(ShardConfig(), MemoryStore())

    with pytest.raises(LookupError, match="message 7"):
        shard.publish(0, Message(0, 0, 7, 0, 0, 1), Publication("amq.headers", ""), 0, CLOCK)
