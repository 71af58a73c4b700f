"""Why Kafka does not answer: the errors that librdkafka reports while it cannot connect.

A request without an answer only reports a timeout. librdkafka reports the cause (a refused
password, an untrusted certificate, a listener that requires TLS) earlier, as an event of its own.
"""

from collections.abc import Callable

from confluent_kafka import KafkaError

_SECURITY_ERRORS = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 (how the library names librdkafka's own codes)
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_SUMMARY = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001


class KafkaErrors:
    """Collects the errors of a client of librdkafka; pass `note` as its `error_cb`.

    Args:
        pass_on: called with the text of each error as well.
    """

    def __init__(self, pass_on: Callable[[str], None] | None = None) -> None:
        self._pass_on = pass_on
        self._last = ""
        self._refused = ""

    def note(self, error: KafkaError) -> None:
        """Note an error; security errors take precedence over later ones."""
        words = error.str()
        if error.code() in _SECURITY_ERRORS:
            self._refused = words
        elif error.code() != _SUMMARY:
            self._last = words
        if self._pass_on is not None:
            self._pass_on(words)

    def explain(self, reason: str) -> str:
        """Why there was no answer and what to check, to end a sentence.

        Args:
            reason: the error of the failed request.
        """
        if self._refused:
            return f"({self._refused}): are user, password and certificates right (kafka.security)?"
        said = f"{reason}; {self._last}" if self._last else reason
        return (
            f"({said}): is Kafka running there, is the address right, and does that listener "
            "require TLS or a password (kafka.security)?"
        )
