"""The Kafka clients and the shared state of one connection."""

import threading
import time
import uuid
from collections.abc import Callable

from streaming.client._transport.command_client import CommandClient
from streaming.client._transport.dispatch import Dispatch
from streaming.client._transport.flow import FLOW_STOPPED, Flow
from streaming.client._transport.liveness import SILENT_S, Liveness
from streaming.client._transport.outages import Outages
from streaming.client._transport.reader import Reader
from streaming.client._transport.sender import Sender
from streaming.client.address import Address
from streaming.client.errors import ConnectionClosedError, NoAnswerError, NoJobError

CHECK_EVERY_S = 0.05
MIN_SILENCE_S = 4.5
"""While flow control stops publishers, the job repeats its notice every 2 s."""

COMMAND_TIMEOUT_MS = 300_000
"""How long a command waits for Kafka. Callers wait for `timeout_s`; a settlement, for which nobody
waits, must survive an outage. A publish that Kafka does not accept in time is given up."""


class Link:
    """What the channels, publishers and transactions of a connection share.

    Args:
        on_outage: as in `Connection`.

    Attributes:
        session: part of every name that this connection makes up.
        sender: the producer of publishes.
        commands: sends commands.
        dispatch: hands records to channels and publishers.
        flow: the state of flow control.
        liveness: when the job was last heard.
        outages: to report what a channel notices.
    """

    def __init__(
        self, address: Address, timeout_s: float, on_outage: Callable[[str], None] | None
    ) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self.session = uuid.uuid4().hex[:12]
        self.outages = Outages(address.bootstrap, on_outage)
        self.flow = Flow()
        self.liveness = Liveness(time.monotonic())
        self._senders: list[Sender] = []
        self.sender = self.new_sender()
        patient_sender = self.new_sender(**{"message.timeout.ms": COMMAND_TIMEOUT_MS})
        self.commands = CommandClient(address, patient_sender, timeout_s, self.liveness)
        self.outages.probe = self._probe
        self.dispatch = Dispatch(self.commands, self.flow, self.outages)
        self._lock = threading.Lock()
        self._names = 0
        self._closed = False
        try:
            self._reader = Reader(address, timeout_s, self.dispatch, self.outages, self.liveness)
        except BaseException:
            self._close_senders()
            raise
        self.commands.answering_thread = self._reader.thread
        self._reader.heartbeat_known.wait(timeout_s)

    def new_sender(self, **properties: object) -> Sender:
        """Start a producer; `properties` override those of the address."""
        sender = Sender(
            self.address.properties, self.timeout_s, self.outages.kafka_error, **properties
        )
        self._senders.append(sender)
        return sender

    def close_sender(self, sender: Sender) -> None:
        """Close a producer before the link closes."""
        self._senders.remove(sender)
        sender.close()

    def new_name(self, prefix: str) -> str:
        """Return a name that nobody else has."""
        with self._lock:
            self._names += 1
            return f"{prefix}-{self.session}-{self._names}"

    def check_open(self) -> None:
        """Raise ConnectionClosedError after `close`."""
        if self._closed:
            raise ConnectionClosedError("the connection is closed")

    def require_job(self) -> None:
        """Wait until a job is heard: at once if one runs, otherwise for at most `SILENT_S`.

        Raises:
            NoJobError: none is heard, or nobody can tell.
        """
        deadline_s = time.monotonic() + SILENT_S
        while not self.liveness.is_running:
            if not self.liveness.can_hear:
                raise NoJobError(
                    f"whether a job is running cannot be told: the topic {self.address.alive} of "
                    "its heartbeat does not exist or may not be read. Nothing was sent"
                )
            if time.monotonic() > deadline_s:
                raise NoJobError(
                    f"{self.liveness.absence()} on {self.address.alive}: nothing was sent. Start "
                    "the job with `dlx run`"
                )
            time.sleep(CHECK_EVERY_S)

    def _probe(self) -> None:
        self.commands.request_async({"op": "renew"}, self.new_name("probe"), lambda _answer: None)

    @property
    def silence_s(self) -> float:
        """How long the job may write nothing before publishes fail, in seconds."""
        return self.timeout_s if self.flow.is_open else max(self.timeout_s, MIN_SILENCE_S)

    def wait_for_flow(self, timeout_s: float | None) -> bool:
        """Wait while flow control stops publishers; False if it still does after `timeout_s`.

        Raises:
            NoAnswerError: the job, which repeats its notice, became silent.
            ConnectionClosedError: the connection was closed in the meantime.
        """
        is_open = self.flow.wait(self._check_notices, timeout_s)
        self.check_open()
        return is_open

    def _check_notices(self) -> None:
        self.check_open()
        if time.monotonic() - self.liveness.heard_s > self.silence_s:
            raise NoAnswerError(
                f"{FLOW_STOPPED}. The job, which repeats this, has been silent for "
                f"{self.silence_s:g} s: is `dlx run` running? The message was not sent",
                takes_effect=False,
            )

    def close(self) -> None:
        """Close the channels, give Kafka what is queued, and fail whatever is unconfirmed."""
        if self._closed:
            return
        for receiver in self.dispatch.receivers():
            receiver.closing()
        self._closed = True
        self.flow.release()
        self._close_senders()
        self._reader.close()
        error = ConnectionClosedError("the connection was closed")
        for receiver in self.dispatch.receivers():
            receiver.closed(error)
        self.commands.fail_all(error)

    def _close_senders(self) -> None:
        for sender in reversed(self._senders):
            sender.close()
