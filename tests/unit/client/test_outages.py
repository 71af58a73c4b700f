"""Outages is told once, in words that say who is to blame, and taken back."""

import pytest

from streaming.client.outages import Outages

OVER = "the job is heard again"
NO_ANSWER = "the job did not answer to the renewal of a channel"


@pytest.fixture
def told():
    return []


@pytest.fixture
def trouble(told):
    return Outages("kafka:9092", told.append)


def test_a_silent_job_is_told_once_until_it_is_heard_again(trouble, told):
    trouble.job_is_silent()
    trouble.job_is_silent()
    silent = str(trouble)
    trouble.job_lives()
    trouble.job_lives()

    assert told == [silent, OVER]
    assert "though Kafka at kafka:9092 answers: is `dlx run` running?" in silent
    assert str(trouble) == ""


def test_a_job_that_is_still_away_when_kafka_is_back_is_told(trouble, told):
    trouble.of_kafka("Connection refused")
    trouble.kafka_is_silent()
    trouble.job_is_silent()
    trouble.of_kafka("Disconnected")  # a word of librdkafka's does not make it Kafka's fault
    trouble.kafka_is_silent()

    assert told == [
        "Kafka at kafka:9092 is in trouble (Connection refused); trying again",
        "the job has fallen silent, though Kafka at kafka:9092 answers: is `dlx run` running? "
        "What is sent meanwhile waits in Kafka",
        "Kafka at kafka:9092 does not answer; trying again",
    ]


def test_that_the_job_lives_is_no_answer(trouble, told):
    trouble.no_answer(NO_ANSWER)
    trouble.job_lives()
    assert str(trouble) == NO_ANSWER

    trouble.is_over()

    assert told == [NO_ANSWER, OVER]


def test_a_job_that_died_without_an_answer_is_told(trouble, told):
    trouble.no_answer(NO_ANSWER)
    trouble.job_is_silent()
    trouble.no_answer(NO_ANSWER)

    assert [words[:10] for words in told] == [NO_ANSWER[:10], "the job ha"]
