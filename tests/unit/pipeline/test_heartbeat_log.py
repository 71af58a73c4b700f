"""A heartbeat that Kafka does not take is said once, for all topics together."""

import logging

from streaming.pipeline.flow.heartbeat import Silence


def test_topics_that_take_no_beat_are_named_once_and_again_when_they_do(caplog):
    caplog.set_level(logging.INFO)
    silence = Silence()

    for topic in ("a.alive", "b.alive", "c.alive"):
        silence.heard(topic, "timed out")
    silence.say()
    silence.heard("a.alive", "timed out")
    silence.say()
    silence.heard("b.alive", None)
    silence.say()
    silence.say()

    assert [record.getMessage() for record in caplog.records] == [
        "no heartbeat in a.alive and 2 more: clients cannot tell there whether the job lives: "
        "timed out",
        "heartbeat again in b.alive",
    ]
