"""What clients see while Kafka or the job is down, and that they resume."""

import time

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streaming.client import (
    Address,
    ClientError,
    Connection,
    Consumer,
    Delivery,
    KafkaUnreachableError,
    NoAnswerError,
    TransactionAbortedError,
)
from streaming.embedded.kafka.broker import EmbeddedKafka
from tests.fixtures.jobs import RunningJob
from tests.fixtures.services import new_topic
from tests.fixtures.waiting import WAIT_S

TIMEOUT_S = 1.5
NO_ANSWER_S = 5
"""How long a check waits for a job that is not there: enough for Kafka to store the check."""

__all__ = ["new_topic"]


def taken(consumer: Consumer, count: int) -> list[Delivery]:
    """The next deliveries, waited for."""
    deliveries = (consumer.next(WAIT_S) for _ in range(count))
    return [delivery for delivery in deliveries if delivery is not None]


def wait_for_answers(connection: Connection, seconds: float) -> None:
    """Change how long a connection waits; what it has connected to in peace may then be silent."""
    link = connection._link  # noqa: SLF001 (a user chooses it once)
    link.timeout_s = link.commands._timeout_s = seconds  # noqa: SLF001


def wait_briefly_for_the_check(connection: Connection) -> None:
    """Change how long the check of an open transaction waits; what comes before it is slow.

    Returns once Kafka has taken a command: the next one needs no new connection.
    """
    commands = connection._link.commands  # noqa: SLF001
    commands.ask_behind(connection.address.commands, "before the check")
    connection._link.timeout_s = NO_ANSWER_S  # noqa: SLF001


@pytest.fixture
def nobody(embedded_kafka, new_topic):
    """A connection to topics that no job reads."""
    address = Address(
        bootstrap=embedded_kafka.bootstrap_servers,
        publishes=new_topic(),
        commands=new_topic(),
        transactions=new_topic(),
        outbound=new_topic(),
    )
    with Connection(address, timeout_s=WAIT_S) as connection:
        wait_for_answers(connection, TIMEOUT_S)
        yield connection


def test_without_kafka_connecting_fails_in_words():
    with pytest.raises(KafkaUnreachableError, match=r"127\.0\.0\.1:9 within 1\.5 s .* running"):
        Connection("127.0.0.1:9", timeout_s=TIMEOUT_S)


def test_without_the_jobs_topics_connecting_names_them(embedded_kafka):
    address = Address(
        bootstrap=embedded_kafka.bootstrap_servers, commands="none.commands", outbound="none.out"
    )

    with pytest.raises(ClientError, match=r"no topic .*none\.commands.*none\.out.*dlx run"):
        Connection(address)


def test_without_a_job_a_command_fails_in_words(nobody):
    with pytest.raises(NoAnswerError, match=r"open_channel within 1\.5 s.*is `dlx run` running"):
        nobody.channel()


def test_without_a_job_a_publish_fails(nobody):
    publisher = nobody.publisher()

    first, second = publisher.publish("", "q", b"1"), publisher.publish("", "q", b"2")

    with pytest.raises(NoAnswerError, match="is `dlx run` running"):
        first.result(WAIT_S)
    with pytest.raises(NoAnswerError):
        second.result(WAIT_S)
    publisher.close()


def test_without_a_job_a_transaction_fails_and_takes_no_effect(nobody):
    wait_for_answers(nobody, WAIT_S)  # a first transaction is slow
    started = []

    def publish():
        with nobody.transaction() as transaction:
            started.append(transaction.publish("", "q", b"1"))
            wait_briefly_for_the_check(nobody)

    with pytest.raises(NoAnswerError, match=r"is `dlx run` running.*none of it takes effect"):
        publish()
    with pytest.raises(TransactionAbortedError, match="NoAnswerError"):
        started[0].result(0)
    wait_for_answers(nobody, WAIT_S)
    with nobody.transaction():
        pass  # nobody is asked about nothing


def test_without_confirms_the_delivery_report_is_enough(nobody):
    assert nobody.publisher(confirms=False).publish("", "q", b"1").result(WAIT_S) is None


@pytest.mark.long
def test_a_transaction_without_kafka_fails_and_the_next_uses_a_new_producer(tmp_path):
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        address = Address(bootstrap=kafka.bootstrap_servers, transactions="dlx.transactions")
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        topics = [NewTopic(topic, 1) for topic in sorted(address.topics())]
        for made in admin.create_topics(topics).values():
            made.result(WAIT_S)
        with Connection(address, timeout_s=WAIT_S) as connection:
            started = []

            def publish(before_the_end):
                wait_for_answers(connection, WAIT_S)  # a new broker is slow
                with connection.transaction() as transaction:
                    started.append(transaction.publish("", "q", b"1"))
                    wait_briefly_for_the_check(connection)
                    before_the_end()

            with pytest.raises(KafkaUnreachableError, match="the transaction is aborted"):
                publish(kafka.stop)
            with pytest.raises(TransactionAbortedError, match="KafkaUnreachableError"):
                started[0].result(0)

            kafka.start()
            with pytest.raises(NoAnswerError, match="none of it takes effect"):
                publish(lambda: None)


@pytest.mark.long
def test_a_client_resumes_after_an_outage_of_kafka(tmp_path, spark):
    troubles: list[str] = []
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        running = RunningJob(tmp_path, kafka.bootstrap_servers)
        running.start(spark)
        try:
            with running.connect() as patient:
                patient.channel()  # the first batch of a job takes its time
            with running.connect(timeout_s=5, on_outage=troubles.append) as connection:
                wait_for_answers(connection, WAIT_S)  # all but the producer
                channel = connection.channel()
                channel.declare_queue("work")
                consumer = channel.consume("work")
                publisher = connection.publisher()
                publisher.publish("", "work", b"before").result(WAIT_S)
                [before] = taken(consumer, 1)

                wait_for_answers(connection, 5)
                kafka.stop()
                with pytest.raises(KafkaUnreachableError, match="is it running"):
                    publisher.publish("", "work", b"lost").result(WAIT_S)
                with pytest.raises(KafkaUnreachableError, match="is it running"):
                    channel.queue_depth("work")
                before.ack()
                time.sleep(5)  # longer than any answer is waited for
                wait_for_answers(connection, WAIT_S)
                kafka.start()
                assert channel.sync(WAIT_S) == []
                publisher.publish("", "work", b"after").result(WAIT_S)

                assert [each.body for each in taken(consumer, 1)] == [b"after"]
                assert "Kafka at" in troubles[0]
                assert connection.outage == ""
        finally:
            running.stop()


def test_a_channel_that_lost_its_lease_is_reopened_with_its_consumers(
    shared_connection, publisher, name
):
    queue = name("work")
    channel = shared_connection.channel(lease_s=20)  # renewed at a third of it
    channel.declare_queue(queue)
    consumer = channel.consume(queue)
    publisher.publish("", queue, b"handed out twice").result(WAIT_S)
    first = consumer.next(WAIT_S)

    shared_connection.send({"op": "close_channel"}, channel.name)  # as the broker would by itself

    second = consumer.next(WAIT_S)
    assert (second.body, second.redelivered, channel.reopen_count) == (first.body, True, 1)
    first.ack()
    assert channel.sync() == [first.delivery_id]
    second.ack()
    assert channel.sync() == []
    channel.close()


def test_a_channel_that_a_command_reopened_is_restored(shared_connection, publisher, name):
    queue = name("work")
    channel = shared_connection.channel(lease_s=20)
    channel.declare_queue(queue)
    shared_connection.send({"op": "close_channel"}, channel.name)
    consumer = channel.consume(queue)
    publisher.publish("", queue, b"handed out twice").result(WAIT_S)
    first, second = taken(consumer, 2)

    assert (first.redelivered, second.redelivered, channel.reopen_count) == (False, True, 1)
    answer = shared_connection.request({"op": "renew"}, channel.name)
    assert (answer["open"], answer["lease_ms"]) == (True, 20_000)
    channel.close()


def test_a_channel_without_a_client_is_closed_after_its_lease(
    shared_connection, channel, publisher, name
):
    queue = name("work")
    channel.declare_queue(queue)
    publisher.publish("", queue, b"handed out twice").result(WAIT_S)
    consumer = channel.consume(queue)
    first = consumer.next(WAIT_S)
    consumer.cancel()
    channel.recover()
    gone = shared_connection.channel(lease_s=0.3)
    held = gone.get(queue)
    gone.detach()

    back = channel.consume(queue).next(WAIT_S)

    assert (first.body, held.body, back.body) == (b"handed out twice",) * 3
    assert back.delivery_count == 2
