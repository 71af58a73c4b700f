"""When publishers wait for Kafka, and when they no longer do."""

import pytest

from streaming.sequencer.slow_kafka import CALM_S, LONG_QUEUE, SLOW_S, SlowKafka


@pytest.mark.parametrize(
    ("above", "between", "below"),
    [
        ((LONG_QUEUE + 1, 0.0), (LONG_QUEUE // 2 + 1, 0.0), (LONG_QUEUE // 2, 0.0)),
        ((1, SLOW_S + 0.1), (1, SLOW_S / 2 + 0.1), (1, SLOW_S / 2)),
    ],
)
def test_kafka_is_slow_above_a_mark_until_it_was_below_a_lower_one_for_a_while(
    above, between, below
):
    kafka = SlowKafka()
    found = []
    for at_s, (records, age_s) in enumerate([between, above, between, below, between, below]):
        kafka.update(records, age_s, 10.0 + at_s * CALM_S / 2)
        found.append(kafka.is_slow)

    assert found == [False, True, True, True, True, True]
    kafka.update(below[0], below[1], 20.0)
    assert not kafka.is_slow
    kafka.update(between[0], between[1], 20.1)
    assert not kafka.is_slow


def test_the_log_says_once_that_publishers_wait_and_once_that_they_do_not(caplog):
    kafka = SlowKafka()

    with caplog.at_level("WARNING"):
        for at_s, age_s in enumerate([0.0, 5.0, 6.0, 7.0, 0.0, 0.0, 0.0]):
            kafka.update(7, age_s, float(at_s))

    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("publishers wait: Kafka is slow, or away: 7 records are on their way")
    assert second == "publishers wait no more: Kafka takes records again"


def test_answers_that_come_in_shifts_do_not_let_publishers_stop_and_go():
    kafka = SlowKafka()
    ages_s = [0.3, 0.6, 0.9, 1.2, 0.1, 0.4, 0.7, 1.0, 1.3, 0.2] * 3  # Kafka answers each 1.2 s

    found = []
    for number, age_s in enumerate(ages_s):
        kafka.update(10, age_s, 0.25 * number)
        found.append(kafka.is_slow)

    assert found == [False] * 3 + [True] * 27
