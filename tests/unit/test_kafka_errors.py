"""The reason why a client of librdkafka gets no answer."""

from confluent_kafka import KafkaError

from streaming.kafka_errors import KafkaErrors

SECURITY = KafkaError(KafkaError._AUTHENTICATION, "SASL: no such user")  # noqa: SLF001
DISCONNECTED = KafkaError(KafkaError._TRANSPORT, "connection closed by peer")  # noqa: SLF001
SUMMARY = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")  # noqa: SLF001


def test_without_errors_the_text_has_only_the_reason():
    assert KafkaErrors().explain("timed out").startswith("(timed out): is Kafka running there")


def test_the_text_has_the_last_error_and_no_summary():
    errors = KafkaErrors()
    errors.note(DISCONNECTED)
    errors.note(SUMMARY)

    assert errors.explain("timed out").startswith("(timed out; connection closed by peer): is")


def test_a_refusal_takes_precedence_and_names_the_section():
    heard: list[str] = []
    errors = KafkaErrors(heard.append)
    for error in (SECURITY, DISCONNECTED, SUMMARY):
        errors.note(error)

    assert errors.explain("timed out") == (
        "(SASL: no such user): are user, password and certificates right (kafka.security)?"
    )
    assert heard == [
        "SASL: no such user",
        "connection closed by peer",
        "1/1 brokers are down",
    ]
