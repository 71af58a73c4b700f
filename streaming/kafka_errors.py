"""What librdkafka says while it cannot connect, and whose fault that is.

A request that got no answer says no more than that. The reason (a password that is refused, a
certificate nobody vouches for, a listener that speaks TLS) comes before, as an event of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_SECURITY = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 (how the library names librdkafka's own codes)
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_SUMMARY = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001


class Complaints:
    """Listens to a client of librdkafka; give `note` as its `error_cb`.

    Args:
        pass_on: called with the words of each complaint as well.
    """

    def __init__(self, pass_on: Callable[[str], None] | None = None) -> None:
        self._pass_on = pass_on
        self._last = ""
        self._refused = ""

    def note(self, error: KafkaError) -> None:
        """Take in an error; one of security is not overruled by others."""
        words = error.str()
        if error.code() in _OF_SECURITY:
            self._refused = words
        elif error.code() != _SUMMARY:
            self._last = words
        if self._pass_on is not None:
            self._pass_on(words)

    def explain(self, reason: str) -> str:
        """Why there was no answer, and what to do, for the end of a sentence.

        Args:
            reason: what the request that failed says itself.
        """
        if self._refused:
            return f"({self._refused}): are user, password and certificates right (kafka.security)?"
        said = f"{reason}; {self._last}" if self._last else reason
        return (
            f"({said}): is Kafka running there, is the address right, and does that listener ask "
            "for TLS or a password (kafka.security)?"
        )
