"""What publishers are told of the gate: a `flow` record, as AMQP's channel.flow was (D9).

    gate closes:  {"type": "flow", "active": false, "cause": "above", "resident_bytes": ..., ...}
    gate opens:   {"type": "flow", "active": true, ...}

No shard says so, the job does. So a notice carries `dlx-lane: -1` and a `dlx-seq` of its own, which
goes up by one with each change of the gate; (vhost, lane, seq) stays its id. It goes to every
partition of every outbound topic, without a key: it is for all channels. While the gate is closed
the notice is repeated, with the same seq, for clients that come later. The heartbeat says it, too.

Replay: the seq is kept beside the checkpoint before the notice is sent. A job that starts again
sends the last notice again, or the next one if the gate now stands otherwise; readers drop what is
not above the highest seq they have seen.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from typing import TYPE_CHECKING

import msgspec
from confluent_kafka import KafkaException, Producer

from streaming.pipeline.checkpoint.json_file import read_kept
from streaming.protocol.headers import CHANNEL, KIND, LANE, SEQ, VHOST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from streaming.pipeline.flow.gate import GateState
    from streaming.pipeline.flow.memory import MemoryMarks

FILE = "flow.json"
NO_LANE = -1
"""The lane of what the job itself says."""

REPEAT_S = 2.0
"""Pause between repeats of the notice that the gate is closed."""

FLUSH_TIMEOUT_S = 10

_REMEDY = (
    'Restore it from a copy, or write {"seq": N, "active": true} there, with for N the highest '
    "dlx-seq of the records of dlx-lane -1 in the outbound topics: readers drop notices with lower "
    "numbers"
)

logger = logging.getLogger(__name__)


class Notice(msgspec.Struct):
    """The last notice: its number, and whether publishes flow; number 0: there was none."""

    seq: int = 0
    active: bool = True


class FlowNotices:
    """Tells the readers of all outbound topics when the gate closes and opens.

    Args:
        checkpoint: folder of the checkpoint.
        marks: named in the notices.
        topics: (vhost, user) -> outbound topic.
        partitions: topic -> number of partitions.
        producer: librdkafka properties; may hold secrets.

    Raises:
        DamagedFileError: flow.json cannot be read.
    """

    def __init__(
        self,
        checkpoint: Path,
        marks: MemoryMarks,
        topics: Mapping[tuple[str, str], str],
        partitions: Mapping[str, int],
        producer: Mapping[str, str],
    ) -> None:
        self._path = checkpoint / FILE
        self._marks = marks
        self._topics = dict(topics)
        self._partitions = dict(partitions)
        self._producer = Producer({**producer, "log_level": 0, "linger.ms": 0})
        self._last = read_kept(self._path, Notice, _REMEDY) or Notice()
        self._gate: GateState | None = None
        self._changed = threading.Condition()
        self._greeted = False  # the notice of an earlier run was sent again
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="flow-notices", daemon=True)
        self._thread.start()

    def gate_is(self, gate: GateState) -> None:
        """Take in where the gate stands; a change is told to all, off the path of the batch."""
        with self._changed:
            before, self._gate = self._gate, gate
            if before is None or before.open != gate.open:
                self._changed.notify()

    def said(self, kind: str) -> tuple[bytes, list[tuple[str, str | bytes | None]]]:
        """What the last notice said, with the bytes that are resident now: value and headers.

        Args:
            kind: of the record that is to repeat it.
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
        }
        return json.dumps(document).encode(), [
            (KIND, kind.encode()),
            (LANE, str(NO_LANE).encode()),
            (SEQ, str(last.seq).encode()),
        ]

    def stop(self) -> None:
        """Tell what is left to tell, and end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        failed = False
        while True:
            with self._changed:
                if not self._stopping and (failed or not self._is_news()):
                    self._changed.wait(None if self._last.active and not failed else REPEAT_S)
                gate, stopping, is_news = self._gate, self._stopping, self._is_news()
                self._greeted = self._greeted or gate is not None
            if gate is not None and (is_news or failed or not gate.open):
                failed = not self._tell(gate)
            if stopping:
                return

    def _is_news(self) -> bool:
        gate = self._gate
        return gate is not None and (not self._greeted or gate.open != self._last.active)

    def _tell(self, gate: GateState) -> bool:
        """Send a notice; False if Kafka did not take it, and it is to be sent again."""
        if gate.open != self._last.active:
            self._last = Notice(self._last.seq + 1, gate.open)
            self._keep()
            text = "publishes flow again" if gate.open else "publishes are held back"
            logger.warning("flow control: %s, %d bytes are resident", text, gate.resident_bytes)
        if self._last.seq == 0:  # it was always open
            return True
        value, headers = self.said("flow")
        failures: list[str] = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failures.append(str(error))

        try:
            for (vhost, _user), topic in self._topics.items():
                for partition in range(self._partitions[topic]):
                    self._producer.produce(
                        topic,
                        value=value,
                        partition=partition,
                        headers=[*headers, (VHOST, vhost.encode()), (CHANNEL, b"")],
                        on_delivery=delivered,
                    )
            left = self._producer.flush(FLUSH_TIMEOUT_S)
        except (BufferError, KafkaException) as error:
            left, failures = 1, [str(error)]
        if left or failures:
            reason = failures[0] if failures else f"no answer within {FLUSH_TIMEOUT_S} s"
            logger.warning("flow control: a notice could not be sent: %s", reason)
            return False
        return True

    def _keep(self) -> None:
        unfinished = self._path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            file.write(msgspec.json.encode(self._last))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)
