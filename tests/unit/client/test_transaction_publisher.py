"""A record that Kafka does not accept aborts the transaction that it belongs to, and says so."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streaming.client import Address
from streaming.client._transport.flow import Flow
from streaming.client.errors import KafkaUnreachableError, TransactionAbortedError
from streaming.client.transaction import TransactionPublisher


class Kafka:
    """What a publisher needs of a connection; `refuse` gives up on its records."""

    def __init__(self) -> None:
        self.address = Address(bootstrap="k")
        self.dispatch = SimpleNamespace(add=lambda *_: None)
        self.commands = SimpleNamespace(kafka_error=KafkaUnreachableError)
        self.flow = Flow()
        self.sender = self
        self.reports: list[Any] = []

    def check_open(self) -> None: ...

    def send(self, _topic: str, _record: Any, on_report: Any, *, partition: int) -> None:
        self.reports.append(on_report)

    def refuse(self) -> None:
        """Report each record as one that was not accepted in time."""
        for report in self.reports:
            report(KafkaError(KafkaError._MSG_TIMED_OUT), None)  # noqa: SLF001 (its name there)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_publish_of_an_aborted_transaction_says_so_whatever_comes_first(is_first):
    kafka: Any = Kafka()
    publisher = TransactionPublisher(
        kafka, "p", confirms=True, on_return=None, on_flow="block", max_unconfirmed=1
    )
    publisher.begin(kafka, "block")
    confirm = publisher.publish("", "q", b"1")

    if is_first:
        kafka.refuse()
    publisher.fail(TransactionAbortedError("the transaction was aborted: KafkaUnreachableError()"))
    publisher.end()
    if not is_first:
        kafka.refuse()

    with pytest.raises(TransactionAbortedError, match="KafkaUnreachableError"):
        confirm.result(0)
