"""An outage is reported once, with its cause, and its end once."""

import pytest

from streaming.client._transport.outages import Outages

NO_ANSWER = "the job did not answer the renewal of a channel"


@pytest.fixture
def reports():
    return []


@pytest.fixture
def outages(reports):
    return Outages("kafka:9092", reports.append)


def test_a_silent_job_is_reported_once_until_it_answers(outages, reports):
    outages.job_is_silent()
    outages.job_is_silent()
    silent = outages.text
    assert outages.cause == "the job"
    outages.job_is_alive()
    outages.job_is_alive()
    assert reports == [silent]
    assert outages.cause == "the job"
    outages.end()
    outages.end()

    assert reports == [silent, "the job answers again"]
    assert "kafka:9092" in silent
    assert (outages.cause, outages.text) == ("", "")


def test_a_job_that_is_still_down_when_kafka_is_back_is_reported(outages, reports):
    causes = []
    for note in (
        lambda: outages.kafka_error("Connection refused"),
        outages.kafka_is_silent,
        outages.job_is_silent,
        lambda: outages.kafka_error("Disconnected"),  # one error does not make it Kafka's fault
        outages.kafka_is_silent,
    ):
        note()
        causes.append(outages.cause)

    assert causes == ["Kafka", "Kafka", "the job", "the job", "Kafka"]
    assert len(reports) == 3
    assert "Connection refused" in reports[0]


def test_a_heartbeat_does_not_end_an_outage_of_answers(outages, reports):
    outages.no_answer(NO_ANSWER)
    outages.job_is_alive()
    assert outages.text == NO_ANSWER

    outages.end()

    assert reports == [NO_ANSWER, "the job answers again"]


def test_a_job_that_died_after_a_missing_answer_is_reported(outages, reports):
    outages.no_answer(NO_ANSWER)
    outages.job_is_silent()
    outages.no_answer(NO_ANSWER)

    assert reports[0] == NO_ANSWER
    assert (outages.cause, len(reports)) == ("the job", 2)


@pytest.mark.parametrize("begin", [Outages.job_is_silent, Outages.kafka_is_silent])
def test_the_first_heartbeat_after_silence_sends_one_probe(outages, begin):
    probes = []
    outages.probe = lambda: probes.append(outages.text)
    outages.job_is_alive()
    begin(outages)

    for _ in range(3):
        outages.job_is_alive()

    assert len(probes) == 1
    assert probes[0] == outages.text != ""


def test_a_job_that_dies_before_it_answers_is_probed_again(outages, reports):
    probes = []
    outages.probe = lambda: probes.append(1)
    for _ in range(2):
        outages.job_is_silent()
        outages.job_is_alive()

    assert (len(probes), len(reports)) == (2, 1)
