"""When a front that follows a log may replace a leader that it does not hear."""

import logging

import pytest

from streaming.sequencer.leader_heartbeats import Beat, Leader
from streaming.sequencer.takeover import HEAR_LEADER_S, SaidOrNot, Silence, deaf_since_s

TAKEOVER_S = 3.0
NOW_S = 1_000.0
INFINITE_S = float("inf")
EPOCH = 7


def leader(silent_s: float, *, epoch: int = EPOCH, ends: bool = False) -> Leader:
    return Leader(Beat("front-a", epoch, ends), NOW_S - silent_s)


def listening(heard: Leader | None, losses: int | None = None) -> Silence:
    """A front that has read its log fast, a minute ago, and has looked for the leader since."""
    silence = Silence(TAKEOVER_S, heard, NOW_S - 60.1, NOW_S - 60.0, losses)
    silence.look(heard, NOW_S - 30)
    silence.was_deaf(NOW_S - 30)
    for quarter in range(120):
        silence.look(heard, NOW_S - 30 + quarter / 4)
    silence.look(heard, NOW_S)
    return silence


@pytest.mark.parametrize(
    ("reading_s", "heard", "listened_s"),
    [
        (0.1, None, INFINITE_S),
        (0.1, leader(silent_s=60), INFINITE_S),  # it was killed; this one starts at once
        (60.0, None, INFINITE_S),
        (60.0, leader(silent_s=100), INFINITE_S),  # it was silent before the log was read
        (7.4, leader(silent_s=8), 0.0),  # Kafka slept: the leader cannot be heard
        (7.4, leader(silent_s=1), 0.0),
    ],
)
def test_a_leader_that_was_there_when_the_log_was_read_slowly_is_listened_for(
    reading_s, heard, listened_s
):
    heard_s = float("-inf") if heard is None else heard.heard_s

    deaf_s = deaf_since_s(heard_s, NOW_S - reading_s, NOW_S, TAKEOVER_S)

    assert NOW_S - deaf_s == listened_s


@pytest.mark.parametrize(
    ("heard", "is_over"),
    [
        (None, True),
        (leader(0.4), False),
        (leader(2.9), False),
        (leader(3.1), True),
        (leader(0.4, ends=True), True),
        (leader(0.4, epoch=3), True),  # it was replaced by one that nobody heard
        (leader(0.4, epoch=9), False),  # its epoch record is not read yet
    ],
)
def test_a_leader_must_be_silent_or_have_said_that_it_ends(heard, is_over):
    assert listening(heard).is_over(heard, EPOCH, NOW_S) is is_over


def test_after_its_own_pause_a_front_listens_for_as_long_as_a_takeover_takes():
    heard = leader(0.4)
    silence = listening(heard)
    woken_s = NOW_S + 3.1

    silence.look(heard, woken_s)
    assert not silence.is_over(heard, EPOCH, woken_s)
    for second in (1, 2):
        silence.look(heard, woken_s + second)
        assert not silence.is_over(heard, EPOCH, woken_s + second)
    silence.look(heard, woken_s + 3)
    assert silence.is_over(heard, EPOCH, woken_s + 3)


@pytest.mark.parametrize(("ends", "is_over"), [(False, False), (True, True)])
def test_a_leader_whose_clock_is_behind_is_listened_for(ends, is_over):
    heard = leader(silent_s=3_600, ends=ends)  # as its timestamps say; it is there
    silence = Silence(TAKEOVER_S, heard, NOW_S - 0.1, NOW_S)

    assert silence.is_over(heard, EPOCH, NOW_S) is is_over
    silence.look(heard, NOW_S + HEAR_LEADER_S)
    assert silence.is_over(heard, EPOCH, NOW_S + HEAR_LEADER_S)


@pytest.mark.parametrize("takeover_ms", [200, 1_000, 1_700, 3_000, 3_300])
@pytest.mark.parametrize("uptime_s", [100.3, 7_000.7, 44_000.1, 3e6])
def test_a_front_takes_over_whatever_its_patience_and_its_uptime_are(takeover_ms, uptime_s):
    silence = Silence(takeover_ms / 1_000, None, uptime_s, uptime_s)

    silence.look(None, uptime_s + 0.01)

    assert silence.is_over(None, EPOCH, uptime_s + 0.01)


def test_who_writes_the_log_is_there_although_no_heartbeat_comes():
    silence = listening(None)

    silence.read(NOW_S - 1)

    assert not silence.is_over(None, EPOCH, NOW_S)
    assert not silence.is_over(leader(0.1, epoch=3, ends=True), EPOCH, NOW_S), "of another epoch"
    assert silence.is_over(leader(0.1, ends=True), EPOCH, NOW_S)
    silence.look(None, NOW_S + 1.4)
    silence.look(None, NOW_S + 2.1)
    assert silence.is_over(None, EPOCH, NOW_S + 2.1)


def test_a_pause_counts_although_the_leader_was_only_read():
    silence = listening(None)
    silence.read(NOW_S)

    silence.look(None, NOW_S + 60)

    assert not silence.is_over(None, EPOCH, NOW_S + 60)


def test_a_front_that_was_replaced_by_one_it_did_not_hear_waits_longer_each_time():
    waited_s = []
    for losses in (None, 0, 1, 2, 3, 20):
        silence = listening(None, losses)
        silence.read(NOW_S)
        at_s = NOW_S
        while not silence.is_over(None, EPOCH, at_s):
            at_s += 1.0
            silence.look(None, at_s)
        waited_s.append(at_s - NOW_S)

    assert waited_s == [4.0, 4.0, 7.0, 13.0, 25.0, 385.0]


def test_it_waits_no_longer_once_heartbeats_arrive_again():
    silence = listening(None, losses=5)
    silence.read(NOW_S - 4)
    assert not silence.is_over(None, EPOCH, NOW_S)

    silence.is_heard()

    assert silence.is_over(None, EPOCH, NOW_S)


def test_heartbeats_that_kafka_does_not_take_are_named_once(caplog):
    heard = SaidOrNot("leaders", 3.0)

    with caplog.at_level(logging.WARNING):
        for at_s, said_s in enumerate([None, 1, 2, 2, 2, 2, 2, 2, 8, 9]):
            heard.update(said_s, float(at_s))

    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("Kafka does not take heartbeats in leaders")
    assert second == "Kafka takes heartbeats in leaders again"


def test_kafka_is_not_blamed_for_a_pause_of_the_front_itself(caplog):
    heard = SaidOrNot("leaders", 3.0)

    with caplog.at_level(logging.WARNING):
        heard.update(None, 100.0, leads=False)
        for at_s in (100.25, 101.0, 107.0, 107.25, 108.0):  # it slept
            heard.update(101.0 if at_s < 108 else 107.5, at_s)

    [said] = (record.getMessage() for record in caplog.records)
    assert said == (
        "this front did not come to its regular work for 6.0 s: it was stopped, the machine was "
        "busy, or something took that long. A standby may have replaced it"
    )

    with caplog.at_level(logging.WARNING):
        for at_s in range(110, 120, 2):
            heard.update(107.5, float(at_s))
    assert caplog.records[-1].getMessage().startswith("Kafka does not take heartbeats")


def test_a_front_that_leads_again_has_not_been_silent_while_it_followed(caplog):
    heard = SaidOrNot("leaders", 3.0)

    with caplog.at_level(logging.WARNING):
        heard.update(1.0, 1.0)
        for at_s in range(2, 600):
            heard.update(1.0, float(at_s), leads=False)
        heard.update(1.0, 600.0)
        heard.update(600.5, 601.0)

    assert not caplog.records
