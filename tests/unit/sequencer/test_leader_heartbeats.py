"""Who is heard to lead a log."""

import msgspec
import pytest

from streaming.sequencer import leader_heartbeats
from streaming.sequencer.leader_heartbeats import (
    Beat,
    HeardLeaders,
    Leaders,
    LeadersUnreadableError,
)


def test_the_newest_epoch_of_each_log_counts():
    heard = HeardLeaders()
    heard.note("/", Beat("a", 50_000, False, "log", "before"), 1.0)
    heard.note("/", Beat("b", 0, False, "log", "now"), 2.0)
    heard.note("/", Beat("c", 9, False, "log", "now"), 3.0)
    heard.note("/", Beat("b", 0, False, "log", "now"), 4.0)
    heard.note("/", Beat("d", 99, False, "of another job", "x"), 5.0)

    names = [heard.of("/", "log", topic_id) for topic_id in ("before", "now", "never", None)]

    assert [one and one.beat.name for one in names] == ["a", "c", None, "c"]
    assert heard.of("other", "log") is None


def test_a_front_of_an_earlier_version_is_heard_although_it_names_no_log():
    heard = HeardLeaders()
    beat = msgspec.msgpack.decode(msgspec.msgpack.encode(["a", 7, False]), type=Beat)
    heard.note("/", beat, 1.0)

    found = heard.of("/", "log", "now")

    assert found is not None
    assert found.beat.name == "a"


def test_a_start_that_can_hear_nobody_ends_in_words(monkeypatch):
    monkeypatch.setattr(leader_heartbeats, "_ANSWER_S", 0.1)
    nobody = {"bootstrap.servers": "127.0.0.1:1"}

    with pytest.raises(LeadersUnreadableError, match="heartbeats of fronts in beats cannot be"):
        Leaders(nobody, "beats")
