"""Commands and their answers, matched by reply id."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from streaming.client.errors import BrokerError, ClientError, KafkaUnreachableError, NoAnswerError
from streaming.client.records import command
from streaming.client.sender import BY_KEY
from streaming.protocol.commands import parse_command
from topology.errors import InvalidTopologyError

if TYPE_CHECKING:
    from confluent_kafka import Message

    from streaming.client.address import Address
    from streaming.client.reader import Reader
    from streaming.client.sender import Sender

Answer = dict[str, Any]

MAY_STILL = "What was asked may still take effect."
ABORTED = "The transaction is aborted: nothing takes effect."

ON_READERS_THREAD = (
    "this is the thread that reads the answers (it calls on_return, and callbacks of confirms): "
    "it cannot wait for one; ask from another thread"
)

LOOK_S = 0.5


class _Asked(NamedTuple):
    """A command that waits for its answer."""

    op: str
    answer: Future[Answer]
    taken: threading.Event  # Kafka has it


class CommandClient:
    """Sends the commands of one connection.

    Args:
        reader: who reads the answers.
    """

    def __init__(
        self, address: Address, sender: Sender, timeout_s: float, reader: Callable[[], Reader]
    ) -> None:
        self._reader = reader
        self._address = address
        self._sender = sender
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] = {}

    def ask(
        self,
        document: dict[str, Any],
        channel: str,
        *,
        timeout_s: float | None = None,
        patience_s: float = 0.0,
    ) -> Answer:
        """Send a command and wait for its answer.

        Args:
            patience_s: how much longer to wait, as long as Kafka has it and the job lives.

        Raises:
            ClientError: the command is malformed, or this is the reader's thread; nothing was sent.
            BrokerError: it was refused.
            NoAnswerError, KafkaUnreachableError: no answer in time.
        """
        [answer] = self.ask_all([document], channel, timeout_s=timeout_s, patience_s=patience_s)
        return answer

    def ask_all(
        self,
        documents: Iterable[dict[str, Any]],
        channel: str,
        *,
        timeout_s: float | None = None,
        patience_s: float = 0.0,
    ) -> list[Answer]:
        """Send commands, one behind the other, and wait for all their answers; as `ask`."""
        if self._reader().is_this_thread:
            raise ClientError(ON_READERS_THREAD)
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        sent: dict[str, _Asked] = {}
        try:
            for document in documents:
                asked, reply_id = self._send_asking(document, channel)
                sent[reply_id] = asked
            began_s = time.monotonic()
            return [self._answer(asked, began_s, wait_s, patience_s) for asked in sent.values()]
        finally:
            with self._lock:
                for reply_id in sent:
                    self._asked.pop(reply_id, None)

    def _answer(self, asked: _Asked, began_s: float, wait_s: float, patience_s: float) -> Answer:
        next_s = max(0.0, began_s + wait_s - time.monotonic())
        while True:
            with suppress(FutureTimeoutError):
                return asked.answer.result(next_s)
            waited_s = time.monotonic() - began_s
            goes_on = asked.taken.is_set() and self._reader().lives
            if not goes_on or waited_s >= wait_s + patience_s:
                raise self._no_answer(asked, round(waited_s) if patience_s else wait_s)
            next_s = LOOK_S

    def ask_later(
        self, document: dict[str, Any], channel: str, then: Callable[[Answer], None]
    ) -> None:
        """Send a command whose answer, if it comes, is handed over on the reader's thread."""
        asked, reply_id = self._send_asking(document, channel)

        def answered(future: Future[Answer]) -> None:
            with self._lock:
                self._asked.pop(reply_id, None)
            if future.exception() is None:
                then(future.result())

        asked.answer.add_done_callback(answered)

    def ask_behind(
        self, topic: str, partition: int, channel: str, then: Callable[[], None]
    ) -> None:
        """Ask something harmless in a partition; `then` is called when the job has come so far.

        It is called on the reader's thread, after everything that the job had to say to this
        channel of what is before the question.
        """
        asked, _reply_id = self._send_asking({"op": "renew"}, channel, topic, partition)

        def answered(answer: Future[Answer]) -> None:
            if answer.exception() is None or isinstance(answer.exception(), BrokerError):
                then()

        asked.answer.add_done_callback(answered)

    def tell(
        self,
        document: dict[str, Any],
        channel: str,
        lost: Callable[[KafkaUnreachableError], None] | None = None,
    ) -> None:
        """Send a command and do not wait; `lost` is called if Kafka never takes it."""
        record = command({**document, "channel": channel}, self._address.vhost, channel)

        def reported(error: Any, _message: Message) -> None:
            if error is not None and lost is not None:
                lost(self.kafka_error(str(error.str())))

        self._sender.send(self._address.commands, record, reported)

    def _send_asking(
        self,
        document: dict[str, Any],
        channel: str,
        topic: str | None = None,
        partition: int = BY_KEY,
    ) -> tuple[_Asked, str]:
        reply_id = uuid.uuid4().hex
        document = {**document, "channel": channel, "reply_id": reply_id}
        try:
            parse_command(document)
        except InvalidTopologyError as error:
            raise ClientError(f"{document['op']} cannot be asked: {error}") from error
        record = command(document, self._address.vhost, channel)
        asked = _Asked(document["op"], Future(), threading.Event())
        with self._lock:
            self._asked[reply_id] = asked

        def reported(error: Any, _message: Message) -> None:
            if error is None:
                asked.taken.set()
            else:
                _settle(asked.answer, error=self.kafka_error(str(error.str())))

        self._sender.send(topic or self._address.commands, record, reported, partition=partition)
        return asked, reply_id

    def answered(self, reply_id: str, result: Answer, refusal: ClientError | None) -> None:
        """An answer has come; whoever waits for it gets it."""
        with self._lock:
            asked = self._asked.pop(reply_id, None)
        if asked is not None:
            _settle(asked.answer, result, refusal)

    def fail_all(self, error: ClientError) -> None:
        """Nothing will be answered."""
        for asked in list(self._asked.values()):
            _settle(asked.answer, error=error)

    def kafka_error(self, reason: str) -> KafkaUnreachableError:
        """Kafka did not take a record, in words."""
        return KafkaUnreachableError(
            f"Kafka at {self._address.bootstrap} did not take the record ({reason}): is it running?"
        )

    def job_silent(self, what: str, wait_s: float, then: str = MAY_STILL) -> NoAnswerError:
        """The job did not answer, in words; `then` says what becomes of what was asked."""
        return NoAnswerError(
            f"the job did not answer to {what} within {wait_s:g} s, though Kafka has it: is "
            f"`dlx run` running, does it read {self._address.commands}, and does it list the vhost "
            f"{self._address.vhost!r}? A busy job may need longer (timeout_s). {then}"
        )

    def _no_answer(self, asked: _Asked, wait_s: float) -> ClientError:
        if asked.op == "check":
            if asked.taken.is_set():
                return self.job_silent("a transaction's check", wait_s, ABORTED)
            return self.kafka_error(f"not within {wait_s:g} s; the transaction is aborted")
        if not asked.taken.is_set():
            return self.kafka_error(f"not within {wait_s:g} s; it may take effect later")
        return self.job_silent(asked.op, wait_s)


def _settle(
    future: Future[Answer], result: Answer | None = None, error: ClientError | None = None
) -> None:
    """Give a future its outcome, unless it has one."""
    with suppress(InvalidStateError):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result or {})
