"""Flow notices tell publishers when the gate closes and opens, like AMQP's channel.flow (D9).

    gate closes:  {"type": "flow", "active": false, "cause": "above", "resident_bytes": ..., ...}
    gate opens:   {"type": "flow", "active": true, ...}

A notice comes from the job, not from a shard. It has `dlx-lane: -1` and its own `dlx-seq`, which
goes up by one with each change of the gate. It goes to every partition of every outbound topic,
without a key, because it concerns all channels. While the gate is closed, the notice is repeated
with the same seq for clients that connect later.

Replay: the seq is stored in the checkpoint's folder before the notice is sent. A restarted job
sends the last notice again, or the next one if the gate has changed; readers drop notices whose seq
is not above the highest they have seen.
"""

import json
import logging
import threading
from collections.abc import Mapping

import msgspec

from streaming.ledger.batch_detail import GateState
from streaming.pipeline.flow.memory import MemoryMarks
from streaming.protocol.record_headers import CHANNEL, KIND, LANE, SEQ, VHOST
from streaming.record_sender import RecordSender, SendError
from streaming.storage.json_file import read_json_file, write_json_file
from streaming.storage.location import AnyPath

FILE = "flow.json"
NO_LANE = -1
"""The lane of records that come from the job itself."""

REPEAT_S = 2.0
"""Pause between repeats of the notice that the gate is closed, and between retries."""

FLUSH_TIMEOUT_S = 10

_REMEDY = (
    'Restore it from a backup, or write {"seq": N, "active": true} there, where N is the highest '
    "dlx-seq of the records of dlx-lane -1 in the outbound topics: readers drop notices with lower "
    "numbers"
)

logger = logging.getLogger(__name__)


class Notice(msgspec.Struct):
    """The last notice: its seq, and whether publishes flow; seq 0: there was none."""

    seq: int = 0
    active: bool = True


class FlowNotices:
    """Sends notices to every partition of the outbound topics of each (vhost, user).

    Raises:
        DamagedFileError: flow.json cannot be read.
    """

    def __init__(
        self,
        checkpoint: AnyPath,
        marks: MemoryMarks,
        topics: Mapping[tuple[str, str], str],
        partitions: Mapping[str, int],
        producer: Mapping[str, str],
    ) -> None:
        self._path = checkpoint / FILE
        self._marks = marks
        self._topics = dict(topics)
        self._partitions = dict(partitions)
        self._sender = RecordSender({**producer, "linger.ms": 0})
        self._last = read_json_file(self._path, Notice, _REMEDY) or Notice()
        self._gate: GateState | None = None
        self._changed = threading.Condition()
        self._is_repeated = False  # the last notice of an earlier run
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="flow-notices", daemon=True)
        self._thread.start()

    def update(self, gate: GateState) -> None:
        """Set the state of the gate; a change is sent on another thread."""
        with self._changed:
            before, self._gate = self._gate, gate
            if before is None or before.open != gate.open:
                self._changed.notify()

    def record(self, kind: str, **more: object) -> tuple[bytes, list[tuple[str, bytes]]]:
        """Return the last notice with the current memory use: value and headers.

        Args:
            kind: kind of the record: `flow`, or `alive` for a heartbeat.
            more: further members of the value.
        """
        with self._changed:
            gate, last = self._gate, self._last
        document = {
            "type": kind,
            "active": last.active,
            "cause": None if gate is None else gate.cause,
            "resident_bytes": None if gate is None else gate.resident_bytes,
            "high_mark_bytes": self._marks.high_bytes,
            "low_mark_bytes": self._marks.low_bytes,
            "process_bytes": None if gate is None else gate.process_bytes,
            "process_high_mark_bytes": self._marks.process_high_bytes,
            "process_low_mark_bytes": self._marks.process_low_bytes,
            **more,
        }
        return json.dumps(document).encode(), [
            (KIND, kind.encode()),
            (LANE, str(NO_LANE).encode()),
            (SEQ, str(last.seq).encode()),
        ]

    def stop(self) -> None:
        """Send a pending notice, and end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        failed = False
        while True:
            with self._changed:
                if not self._stopping and (failed or not self._is_pending()):
                    self._changed.wait(None if self._last.active and not failed else REPEAT_S)
                gate, stopping, is_pending = self._gate, self._stopping, self._is_pending()
                self._is_repeated = self._is_repeated or gate is not None
            if gate is not None and (is_pending or failed or not gate.open):
                failed = not self._send(gate)
            if stopping:
                return

    def _is_pending(self) -> bool:
        gate = self._gate
        return gate is not None and (not self._is_repeated or gate.open != self._last.active)

    def _send(self, gate: GateState) -> bool:
        """Send a notice; return whether Kafka has it."""
        if gate.open != self._last.active:
            self._last = Notice(self._last.seq + 1, gate.open)
            write_json_file(self._path, self._last)
            self._log(gate)
        if self._last.seq == 0:  # the gate has never been closed
            return True
        value, headers = self.record("flow")
        try:
            for (vhost, _user), topic in self._topics.items():
                named = [*headers, (VHOST, vhost.encode()), (CHANNEL, b"")]
                for partition in range(self._partitions[topic]):
                    self._sender.send(topic, value, partition=partition, headers=named)
            self._sender.flush(FLUSH_TIMEOUT_S)
        except SendError as error:
            logger.warning("flow control: a notice could not be sent: %s", error)
            return False
        return True

    def _log(self, gate: GateState) -> None:
        marks = self._marks
        use = f"messages in queues use {gate.resident_bytes:,} of {marks.high_bytes:,} bytes"
        if marks.process_high_bytes is not None:
            used = "unknown" if gate.process_bytes is None else f"{gate.process_bytes:,}"
            use += f", the job's processes {used} of {marks.process_high_bytes:,} bytes"
        what = "publishes flow again" if gate.open else "publishes are throttled"
        logger.warning("flow control: %s (%s): %s", what, gate.cause, use)
