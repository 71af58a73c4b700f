"""Sends commands and matches their answers by reply id."""

import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from streaming.client._transport.liveness import Liveness
from streaming.client._transport.sender import BY_KEY, Sender
from streaming.client._wire import Record, command_record, refusal_of
from streaming.client.address import Address
from streaming.client.errors import BrokerError, ClientError, KafkaUnreachableError, NoAnswerError
from streaming.protocol.command_json import parse_command
from streaming.protocol.copied_records import not_copied
from streaming.waiting import Flag, take
from topology.errors import InvalidTopologyError

Answer = dict[str, Any]

CHECK_EVERY_S = 0.5


Outcome = Answer | ClientError
"""The job's answer, or its refusal, or why there will be none."""


@dataclass(slots=True)
class _Request:
    """A command that waits for its outcome; `done` gets it, on the thread that learned it."""

    reply_id: str
    op: str
    is_question: bool  # it changes nothing
    done: Callable[[Outcome], object]
    is_stored: bool = False  # Kafka has the command


class Question:
    """Asks whether the job has read everything that a partition had then."""

    def __init__(self) -> None:
        self._outcome: Outcome | None = None
        self._has_ended = Flag()

    def ends(self, outcome: Outcome) -> None:
        """Note the answer, or why there will be none."""
        self._outcome = outcome
        self._has_ended.set()

    @property
    def is_answered(self) -> bool:
        """Whether the job has."""
        return self._has_ended.is_set() and _loss(self._outcome) is None

    def wait(self, timeout_s: float) -> bool:
        """Wait for the answer; False after a time.

        Raises:
            ClientError: there will be none.
        """
        if not self._has_ended.wait(timeout_s):
            return False
        loss = _loss(self._outcome)
        if loss is not None:
            raise loss
        return True


def _loss(outcome: Outcome | None) -> ClientError | None:
    """Why the job did not answer; None if it did: a refusal is an answer, too."""
    if isinstance(outcome, ClientError) and not isinstance(outcome, BrokerError):
        return outcome
    return None


class CommandClient:
    """The commands of one connection.

    Args:
        sender: a producer whose records wait long for Kafka: a settlement must survive an outage.
        timeout_s: how long to wait for an answer.

    Attributes:
        answering_thread: the thread that receives the answers; it must not wait for one.
    """

    def __init__(
        self, address: Address, sender: Sender, timeout_s: float, liveness: Liveness
    ) -> None:
        self._address = address
        self._sender = sender
        self._timeout_s = timeout_s
        self._liveness = liveness
        self._lock = threading.Lock()
        self._requests: dict[str, _Request] = {}
        self.answering_thread: threading.Thread | None = None

    def request(
        self,
        document: Mapping[str, Any],
        channel: str,
        *,
        timeout_s: float | None = None,
        extra_wait_s: float = 0.0,
    ) -> Answer:
        """Send a command and wait for its answer; see `Connection.request`.

        Args:
            timeout_s: overrides the client's.
            extra_wait_s: how much longer to wait while Kafka has the command and the job is alive.

        Raises:
            ClientError: also if this is the answering thread; nothing is sent.
        """
        [answer] = self.request_all([document], channel, timeout_s, extra_wait_s)
        return answer

    def request_all(
        self,
        documents: Iterable[Mapping[str, Any]],
        channel: str,
        timeout_s: float | None = None,
        extra_wait_s: float = 0.0,
    ) -> list[Answer]:
        """Send commands in order and wait for all their answers; see `request`."""
        self.check_can_wait()
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        sent: list[tuple[_Request, queue.SimpleQueue[Outcome]]] = []
        try:
            for document in documents:
                outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
                sent.append((self._send(document, channel, outcomes.put), outcomes))
            start_s = time.monotonic()
            return [self._answer(*each, start_s, wait_s, extra_wait_s) for each in sent]
        finally:
            for request, _ in sent:
                self._forget(request.reply_id)

    def check_can_wait(self) -> None:
        """Refuse to wait on the thread that receives the answers.

        Raises:
            ClientError: this is it.
        """
        if threading.current_thread() is self.answering_thread:
            raise ClientError(
                "this thread receives the answers and calls on_return and the callbacks of "
                "futures: it cannot wait for an answer; send the command from another thread"
            )

    def request_async(
        self, document: Mapping[str, Any], channel: str, then: Callable[[Answer], None]
    ) -> None:
        """Send a command; `then` gets the answer, if one comes, on the answering thread."""

        def done(outcome: Outcome) -> None:
            if not isinstance(outcome, ClientError):
                then(outcome)

        self._send(document, channel, done)

    def notify_when_read(
        self, topic: str, partition: int, channel: str, then: Callable[[], None]
    ) -> None:
        """Call `then` once the job has read everything that a partition has now.

        `then` runs on the answering thread, after every answer and confirm of earlier records.
        """

        def done(outcome: Outcome) -> None:
            if _loss(outcome) is None:
                then()

        self._send({"op": "renew"}, channel, done, topic, partition)

    def ask_behind(self, topic: str, channel: str) -> Question:
        """Ask whether the job has read all records of a topic that have the channel's key.

        Returns:
            A question that Kafka has: what is sent to the topic now is behind it.

        Raises:
            KafkaUnreachableError: Kafka does not take it.
        """
        question, is_known = Question(), Flag()

        def ends(outcome: Outcome) -> None:
            question.ends(outcome)
            is_known.set()

        request = self._send({"op": "renew"}, channel, ends, topic, on_stored=is_known.set)
        if not is_known.wait(self._timeout_s):
            self._fail(request.reply_id, self.kafka_error(f"not within {self._timeout_s:g} s"))
        if not request.is_stored:
            question.wait(0)
        return question

    def send(
        self,
        document: Mapping[str, Any],
        channel: str,
        on_lost: Callable[[KafkaUnreachableError], None] | None = None,
    ) -> None:
        """Send a command and do not wait; `on_lost` is called if Kafka never accepts it."""
        record = command_record({**document, "channel": channel}, self._address.vhost, channel)

        def on_report(error: Any, _message: Message) -> None:
            if error is not None and on_lost is not None:
                on_lost(self.kafka_error(str(error.str())))

        self._sender.send(self._address.commands, record, on_report)

    def send_record(self, record: Record) -> None:
        """Send a record behind the commands that were sent."""
        self._sender.send(self._address.commands, record)

    def complete(self, answer: Mapping[str, Any]) -> None:
        """Give an answer of the job to the request that waits for it, if one does."""
        request = self._forget(answer.get("reply_id") or "")
        if request is not None:
            request.done(refusal_of(answer) or answer.get("result") or {})

    def fail_all(self, error: ClientError) -> None:
        """Fail every request that waits."""
        for reply_id in list(self._requests):
            self._fail(reply_id, error)

    def kafka_error(self, reason: str) -> KafkaUnreachableError:
        """Return the error for a record that Kafka did not accept."""
        return KafkaUnreachableError(
            f"Kafka at {self._address.bootstrap} did not accept the record ({reason}): is it "
            "running?"
        )

    def no_answer(
        self,
        what: str,
        wait_s: float,
        consequence: str = "",
        *,
        topic: str = "",
        takes_effect: bool = True,
    ) -> NoAnswerError:
        """Return the error for a record that Kafka has and the job did not answer.

        Args:
            consequence: by default, whether it takes effect later.
            topic: where the record went; by default the topic of commands.
        """
        topic = topic or self._address.commands
        absence = self._liveness.absence()
        if absence:
            text = (
                f"{absence} on {self._address.alive}: {what} was sent to {topic} and has no answer "
                f"after {wait_s:g} s."
            )
            later = "It takes effect when the job starts (`dlx run`)."
        else:
            doubt = "Kafka has it: is `dlx run` running, does it"
            if self._liveness.is_running:
                doubt = "it is alive: does it"
            text = (
                f"the job did not answer {what} within {wait_s:g} s, although {doubt} read "
                f"{topic}, and does it serve the vhost {self._address.vhost!r}? A busy job may "
                "need a longer timeout."
            )
            later = "It may still take effect."
        if not takes_effect:
            remedy = "; start the job with `dlx run`" if absence else ""
            later = f"Nothing was changed{remedy}."
        return NoAnswerError(f"{text} {consequence or later}", takes_effect=takes_effect)

    def _send(
        self,
        document: Mapping[str, Any],
        channel: str,
        done: Callable[[Outcome], object],
        topic: str | None = None,
        partition: int = BY_KEY,
        on_stored: Callable[[], object] | None = None,
    ) -> _Request:
        reply_id = uuid.uuid4().hex
        document = {**document, "channel": channel, "reply_id": reply_id}
        try:
            command = parse_command(document)
        except InvalidTopologyError as error:
            raise ClientError(f"the command {document['op']} cannot be sent: {error}") from error
        if self._address.sequenced:
            why = not_copied(self._address.vhost, command)
            if why is not None:
                raise ClientError(why)
        record = command_record(document, self._address.vhost, channel)
        request = _Request(reply_id, document["op"], _is_question(document), done)
        with self._lock:
            self._requests[reply_id] = request

        def on_report(error: Any, _message: Message) -> None:
            if error is None:
                request.is_stored = True
                if on_stored is not None:
                    on_stored()
            else:
                self._fail(reply_id, self.kafka_error(str(error.str())))

        where = topic or self._address.commands
        try:
            self._sender.send(where, record, on_report, partition=partition)
        except BaseException:
            self._forget(reply_id)
            raise
        return request

    def _forget(self, reply_id: str) -> _Request | None:
        with self._lock:
            return self._requests.pop(reply_id, None)

    def _fail(self, reply_id: str, error: ClientError) -> None:
        request = self._forget(reply_id)
        if request is not None:
            request.done(error)

    def _answer(
        self,
        request: _Request,
        outcomes: queue.SimpleQueue[Outcome],
        start_s: float,
        wait_s: float,
        extra_wait_s: float,
    ) -> Answer:
        next_s = max(0.0, start_s + wait_s - time.monotonic())
        while True:
            with suppress(queue.Empty):
                outcome = take(outcomes, next_s)
                if isinstance(outcome, ClientError):
                    raise outcome
                return outcome
            waited_s = time.monotonic() - start_s
            may_wait = request.is_stored and self._liveness.is_alive
            if not may_wait or waited_s >= wait_s + extra_wait_s:
                raise self._timeout(request, round(waited_s) if extra_wait_s else wait_s)
            next_s = CHECK_EVERY_S

    def _timeout(self, request: _Request, wait_s: float) -> ClientError:
        is_check = request.op == "check"
        if request.is_stored:
            if not is_check:
                what = f"the command {request.op}"
                return self.no_answer(what, wait_s, takes_effect=not request.is_question)
            aborted = "The transaction is aborted: none of it takes effect."
            what = "the check of a transaction"
            return self.no_answer(what, wait_s, aborted, takes_effect=False)
        consequence = "the transaction is aborted" if is_check else "it may take effect later"
        return self.kafka_error(f"not within {wait_s:g} s; {consequence}")


def _is_question(document: Mapping[str, Any]) -> bool:
    """Whether a command changes nothing but the leases and names of channels."""
    return (
        document["op"] in {"check", "depth", "export_definitions", "open_channel", "renew"}
        or bool(document.get("passive"))
        or document.get("count") == 0
    )
