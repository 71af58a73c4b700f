"""The errors that a client raises. All derive from `ClientError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.errors import DlxError

if TYPE_CHECKING:
    from streaming.client.messages import Returned


class ClientError(DlxError):
    """The base class of every error that the client raises."""


class KafkaUnreachableError(ClientError):
    """Kafka did not accept or return a record in time."""


class NoAnswerError(ClientError):
    """The job did not answer in time although Kafka works.

    Attributes:
        takes_effect: whether what was sent changes something once a job reads it.
    """

    def __init__(self, text: str, *, takes_effect: bool = True) -> None:
        super().__init__(text)
        self.takes_effect = takes_effect


class NoJobError(ClientError):
    """No job is heard, and one was required; nothing was sent."""


class ConfirmTimeoutError(NoAnswerError, TimeoutError):
    """A publish was not confirmed within the time given to `result`; it may still be."""


class ConnectionClosedError(ClientError):
    """The connection is closed."""


class ChannelClosedError(ClientError):
    """The channel is closed: by this client, or by the broker after an error."""


class NackedError(ClientError):
    """The broker refused a publish: a queue with `reject-publish` is full (R-ROUTE-13)."""


class QuarantinedError(ClientError):
    """The job could not read a publish; the table `quarantine` has the record and the cause."""


class FlowStoppedError(ClientError):
    """Flow control stops publishers; the text says whether the message was sent."""


class TransactionAbortedError(ClientError):
    """The transaction was aborted: none of its publishes and settlements takes effect."""


class UnroutableError(ClientError):
    """The broker returned a mandatory or immediate publish.

    Attributes:
        returned: the message, with RabbitMQ's reply code and text.
    """

    def __init__(self, returned: Returned) -> None:
        super().__init__(returned)
        self.returned = returned

    def __str__(self) -> str:
        back = self.returned
        return (
            f"{back.reply_code} {back.reply_text}: published to exchange {back.exchange!r} with "
            f"routing key {back.routing_key!r}"
        )


class BrokerError(ClientError):
    """The broker refused a command and, as in RabbitMQ, closed the channel that sent it.

    Attributes:
        code: the AMQP reply code, such as 404.
        text: RabbitMQ's reply text, such as `NOT_FOUND - no queue 'q' in vhost '/'`.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code} {self.text}"


class AccessRefusedError(BrokerError):
    """403: a missing permission, a reserved name or an internal exchange."""


class NotFoundError(BrokerError):
    """404: the exchange, queue or binding does not exist."""


class ResourceLockedError(BrokerError):
    """405: the queue is exclusive to another channel."""


class PreconditionFailedError(BrokerError):
    """406: an argument is invalid or differs from the existing object, or the object is in use."""


class CommandInvalidError(BrokerError):
    """503: the command is not allowed in this state."""


class NotAllowedError(BrokerError):
    """530: the operation is not allowed, for example because a consumer tag is in use."""


class UnsupportedError(BrokerError):
    """540: not supported, for example in a vhost with several lanes."""


_BY_CODE: dict[int, type[BrokerError]] = {
    403: AccessRefusedError,
    404: NotFoundError,
    405: ResourceLockedError,
    406: PreconditionFailedError,
    503: CommandInvalidError,
    530: NotAllowedError,
    540: UnsupportedError,
}


def broker_error(code: int, text: str) -> BrokerError:
    """Return the exception for a reply code of the broker."""
    return _BY_CODE.get(code, BrokerError)(code, text)


def check_seconds(name: str, value: object) -> None:
    """Refuse a time that is not a number above 0.

    Raises:
        ClientError: names the argument.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ClientError(f"{name} must be a number of seconds above 0, not {value!r}")
