"""What the lanes of a vhost decide together about redrives: the driver writes it into the log.

    notes of the lanes --> verdicts (`broker.redrives.agreement`) --> a command, before the commit

A verdict follows the record that opened the redrive, in the same partition if the job may write
there: so it is after whatever its user wrote there before, wherever batches begin.

Replay: a batch that runs again writes its verdicts again, and so may a job that was started again.
A verdict ends its round, so one that comes twice changes nothing. The notes of lanes that had
nothing to do in a batch are kept, in the batch row too.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from streaming.broker.commands import RedriveVerdict
from streaming.broker.redrives.agreement import LaneNote, verdicts
from streaming.config import JobConfig
from streaming.config.inputs import InputSettings
from streaming.pipeline.reports import ShardReport
from streaming.pipeline.task import TaskSettings
from streaming.protocol.record_headers import OP, VHOST
from streaming.record_sender import BatchSender, RecordSender

logger = logging.getLogger(__name__)

Sent = tuple[str, str, int]
"""Vhost, redrive and round of a verdict."""


class RedriveVerdicts:
    """The verdicts of one job.

    Args:
        known: the notes in the last batch row.

    Attributes:
        is_changed: whether the last batch changed the notes, so that its row has to be written.
    """

    def __init__(
        self,
        config: JobConfig,
        settings: TaskSettings,
        sender: BatchSender,
        known: Mapping[int, list[LaneNote]],
    ) -> None:
        self._config = config
        self._lanes = {name: keys for name, keys in settings.vhosts.items() if len(keys) > 1}
        self._topics = {each.number: topic for topic, each in settings.topics.items()}
        self._is_wall = config.job.clock == "wall"
        self._sender = sender
        self._sent: set[Sent] = set()
        self._clocks: dict[int, int] = {}
        self.is_changed = False
        self._notes = dict(known)

    def batch_done(self, reports: Sequence[ShardReport]) -> None:
        """Take the notes of a batch's lanes; write what they agree on, and wait until it is there.

        Raises:
            SendError: Kafka did not accept it; the batch fails and runs again.
        """
        before = dict(self._notes)
        for report in reports:
            self._clocks[report.shard] = report.now_ms
            self._notes[report.shard] = report.redrives
        self.is_changed = any(
            before.get(shard, []) != notes for shard, notes in self._notes.items()
        )
        written = list(self._agreed())
        if not written:
            return
        with self._sender.sending() as sender:
            for vhost, note, verdict in written:
                self._write(sender, vhost, note, verdict)
        self._sent = {(vhost, verdict.id, verdict.round) for vhost, _note, verdict in written}

    def noted(self) -> dict[int, list[LaneNote]]:
        """Return the notes as the batch row stores them."""
        return {shard: notes for shard, notes in self._notes.items() if notes}

    def _agreed(self) -> Iterator[tuple[str, LaneNote, RedriveVerdict]]:
        """Yield vhost, what is known of the redrive and the verdict, unless it was written."""
        for vhost, keys in self._lanes.items():
            for note, verdict in verdicts([self._notes.get(key, ()) for key in keys]):
                if (vhost, verdict.id, verdict.round) not in self._sent:
                    yield vhost, note, verdict

    def _write(
        self, sender: RecordSender, vhost: str, note: LaneNote, verdict: RedriveVerdict
    ) -> None:
        number, partition = note.opened_by or (None, None)
        opened_in = None if number is None else self._topics.get(number)
        topic = self._topic(note.user, opened_in)
        if topic is None:
            logger.warning(
                "redrive %r of vhost %r waits: no input topic belongs to user %r, who approved it, "
                "or to an administrator; add one and restart the job",
                *(verdict.id, vhost, note.user),
            )
            return
        headers = [(OP, b"redrive_verdict"), (VHOST, vhost.encode())]
        record: dict[str, Any] = {"headers": headers}
        if topic == opened_in:
            record["partition"] = partition
        if not self._is_wall:  # nothing but the records of others moves time
            record["timestamp"] = max(self._clocks.get(key, 0) for key in self._lanes[vhost])
        sender.send(topic, msgspec.json.encode(verdict), **record)

    def _topic(self, user: str | None, opened_in: str | None) -> str | None:
        """A topic whose records may control the redrive of this user.

        Best the one that opened it, then one of commands.
        """

        def order(each: InputSettings) -> tuple[bool, ...]:
            is_best = (each.topic == opened_in, each.user == user, each.source == "commands")
            return each.source == "publishes", *(not one for one in is_best)

        users = self._config.users
        fit = [
            each
            for each in self._config.inputs
            if each.mapping is None
            and (each.user == user or (each.user in users and users[each.user].administrator))
        ]
        return min(fit, key=order).topic if fit else None
