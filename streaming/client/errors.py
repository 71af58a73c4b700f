"""What can go wrong for a client, as exceptions.

ClientError
+-- KafkaUnreachableError   Kafka did not take or give a record
+-- NoAnswerError           Kafka works, the job did not answer in time
+-- ConnectionClosedError, ChannelClosedError
+-- BrokerError             the job refused; RabbitMQ's codes:
|     403 AccessRefusedError, 404 NotFoundError, 405 ResourceLockedError,
|     406 PreconditionFailedError, 503 CommandInvalidError, 530 NotAllowedError,
|     540 UnsupportedError
+-- NackedError, UnroutableError, QuarantinedError   what became of a publish
+-- FlowStoppedError        flow control, where the publisher asked to be told
+-- TransactionAbortedError
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.errors import DlxError

if TYPE_CHECKING:
    from streaming.client.messages import Returned


class ClientError(DlxError):
    """Anything that a client can meet."""


class KafkaUnreachableError(ClientError):
    """Kafka did not take or give a record in time."""


class NoAnswerError(ClientError):
    """Kafka works, and the job did not answer in time; what was asked may still take effect."""


class ConnectionClosedError(ClientError):
    """The connection was closed."""


class ChannelClosedError(ClientError):
    """The channel was closed: by us, or by the broker after an error."""


class NackedError(ClientError):
    """The broker refused a publish: a full queue with `reject-publish` (R-ROUTE-13)."""


class QuarantinedError(ClientError):
    """A publish was passed over: it is in the table `quarantine`, with the cause."""


class FlowStoppedError(ClientError):
    """Flow control has stopped publishers, and this one asked for an error instead of waiting."""


class TransactionAbortedError(ClientError):
    """Nothing of the transaction takes effect."""


class UnroutableError(ClientError):
    """A mandatory or immediate publish came back.

    Attributes:
        returned: the message, with RabbitMQ's reply code and text.
    """

    def __init__(self, returned: Returned) -> None:
        super().__init__(returned)
        self.returned = returned

    def __str__(self) -> str:
        """Code, text, and where it was published to."""
        back = self.returned
        return (
            f"{back.reply_code} {back.reply_text}: published to exchange {back.exchange!r} with "
            f"routing key {back.routing_key!r}"
        )


class BrokerError(ClientError):
    """The broker refused; the channel that asked is closed, as in RabbitMQ.

    Attributes:
        code: AMQP reply code.
        text: RabbitMQ's reply text.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        """`404 NOT_FOUND - no queue 'q' in vhost '/'`."""
        return f"{self.code} {self.text}"


class AccessRefusedError(BrokerError):
    """403: a reserved name, an internal exchange, or a missing permission."""


class NotFoundError(BrokerError):
    """404: there is no such exchange, queue or binding."""


class ResourceLockedError(BrokerError):
    """405: an exclusive queue of another channel."""


class PreconditionFailedError(BrokerError):
    """406: an invalid or inequivalent argument, or an object in use."""


class CommandInvalidError(BrokerError):
    """503: a command that makes no sense there."""


class NotAllowedError(BrokerError):
    """530: a consumer tag in use, say."""


class UnsupportedError(BrokerError):
    """540: not in a vhost with several lanes, say."""


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
    """The exception for a refusal."""
    return _BY_CODE.get(code, BrokerError)(code, text)
