"""When a front that has read its log may replace a leader that it does not hear."""

import msgspec
import pytest

from streaming.sequencer.leaders import Beat, HeardLeaders, Leader, deaf_since_s

TAKEOVER_S = 3.0
NOW_S = 1_000.0


def leader(silent_s):
    return Leader(Beat("front-a", 7), NOW_S - silent_s)


@pytest.mark.parametrize(
    ("reading_s", "heard", "listened_s"),
    [
        (0.1, None, TAKEOVER_S),
        (0.1, leader(silent_s=60), TAKEOVER_S),  # it was killed; this one starts at once
        (60.0, None, TAKEOVER_S),
        (60.0, leader(silent_s=100), TAKEOVER_S),  # it was silent before the log was read
        (7.4, leader(silent_s=8), 0.0),  # Kafka slept: the leader cannot be heard
        (7.4, leader(silent_s=1), 0.0),
    ],
)
def test_a_leader_that_was_there_when_the_log_was_read_slowly_is_listened_for(
    reading_s, heard, listened_s
):
    deaf_s = deaf_since_s(heard, NOW_S - reading_s, NOW_S, TAKEOVER_S)

    assert NOW_S - deaf_s == pytest.approx(listened_s)


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
