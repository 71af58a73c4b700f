"""Continuing after a gap in a log whose loss the operator has accepted (`dlx run --accept-loss`).

    lost.json is written --> the checkpoint's offsets move behind the gap --> the next batch
        writes one quarantine row per range --> lost.json is removed

Replay: a crash anywhere leaves lost.json, and the next start does the rest. Moving offsets twice is
harmless, and the rows belong to a batch like all rows.

An unfinished batch that needs the lost records is dropped. Clients may have its outbound records:
the numbers of later ones begin above them, and all channels are closed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from streaming.broker.outbound import next_start
from streaming.ledger.batch_detail import BatchRow
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Constant, build_table
from streaming.ledger.write.data_file import DRIVER, DataFile, DataFileName, write_data_file
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.checkpoint.errors import CheckpointError
from streaming.pipeline.topics.admin import KafkaTopics
from streaming.pipeline.topics.offset_gaps import (
    Gap,
    LostLogError,
    find_gaps,
    lost,
)
from streaming.storage.json_file import read_json_file, remove_file, write_json_file

FILE = "lost.json"
CAUSE = "lost_in_kafka"
CAUSE_TOPIC = "lost_topic"

_SPEC = TABLES["quarantine"]
_REMEDY = (
    "Restore it from a backup, or move it away: the job then asks again about gaps it has not "
    "passed, and gaps that it has passed already get no row in quarantine"
)


class AcceptedLoss:
    """The gaps whose loss was accepted and that have no row in quarantine yet.

    Raises:
        DamagedFileError: lost.json cannot be read.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._path = checkpoint.path / FILE
        self._checkpoint = checkpoint
        self.gaps = read_json_file(self._path, list[Gap], _REMEDY) or []

    def accept(self, gaps: Sequence[Gap], ledger: Ledger, topics: KafkaTopics) -> None:
        """Store the gaps and move the checkpoint behind them.

        Raises:
            CheckpointError: an unfinished batch needs the lost records.
        """
        self._drop_unfinished_batch(ledger)
        known = {(gap.topic_number, gap.partition, gap.start) for gap in self.gaps}
        self.gaps += [
            gap for gap in gaps if (gap.topic_number, gap.partition, gap.start) not in known
        ]
        write_json_file(self._path, self.gaps)
        for topic in self._recreated():
            self._checkpoint.manifest.topic_number(topics.identities[topic], topic)
        self._checkpoint.save()
        self.move(topics.partitions)

    def move(self, partitions: Mapping[str, int]) -> None:
        """Let the next batch begin behind the gaps.

        Args:
            partitions: topic -> number of partitions.
        """
        moved: dict[str, dict[str, int]] = {}
        for gap in self.gaps:
            ends = moved.setdefault(gap.topic, {})
            if gap.end is None and not ends:
                ends.update({str(number): 0 for number in range(partitions[gap.topic])})
            if gap.partition < partitions[gap.topic]:
                ends[str(gap.partition)] = gap.resume
        batch_id = self._checkpoint.logs.last_committed()
        if moved and batch_id is not None:
            self._checkpoint.logs.move_ends(batch_id, moved, self._recreated())

    def files(self, ledger: Ledger, query_id: str, batch_id: int) -> list[DataFile]:
        """Write the rows as a file of a batch; without gaps there is no file."""
        if not self.gaps:
            return []
        columns: dict[str, Any] = {
            "query_id": Constant(query_id),
            "batch_id": Constant(batch_id),
            "end_offset": [gap.end for gap in self.gaps],
            "origin.topic": [gap.topic for gap in self.gaps],
            "cause": [CAUSE_TOPIC if gap.end is None else CAUSE for gap in self.gaps],
            "detail": [f"lost in Kafka, accepted with --accept-loss: {gap}" for gap in self.gaps],
        }
        for prefix in ("", "origin."):
            columns[f"{prefix}topic_number"] = [gap.topic_number for gap in self.gaps]
            columns[f"{prefix}partition"] = [gap.partition for gap in self.gaps]
            columns[f"{prefix}offset"] = [gap.start for gap in self.gaps]
        name = DataFileName(query_id, batch_id, "lost", DRIVER)
        storage = (ledger.root / _SPEC.name).storage()
        table = build_table(_SPEC.schema, columns, len(self.gaps))
        file = write_data_file(storage, _SPEC, name, table)
        return [] if file is None else [file]

    def committed(self) -> None:
        """Forget the gaps: the batch with their rows is committed."""
        if self.gaps:
            remove_file(self._path)
            self.gaps = []

    def _recreated(self) -> set[str]:
        return {gap.topic for gap in self.gaps if gap.end is None}

    def _drop_unfinished_batch(self, ledger: Ledger) -> None:
        """Drop an unfinished batch that is in no table: it will consist of other records.

        It may have sent records to clients, so its numbers are not used again.
        """
        logs = self._checkpoint.logs
        last, committed = logs.last_planned(), logs.last_committed()
        if last is None or last == committed:
            return
        query_id = logs.query_id()
        assert query_id is not None, "a batch without a query"
        if committed is None:
            raise CheckpointError(
                f"{self._checkpoint.path}: the first batch is unfinished and cannot be finished "
                "without the lost records. Give the job a new checkpoint and new tables"
            )
        for writer in ledger.writers.values():
            known = writer.last_batch(query_id)
            if known is not None and known >= last:
                raise CheckpointError(
                    f"{self._checkpoint.path}: only some tables have batch {last}, and finishing "
                    "it needs records that Kafka has lost. Restore those records"
                )
        for writer in ledger.writers.values():
            for file in list(writer.storage.files()):
                name = DataFileName.parse(file.name)
                if name is not None and (name.query_id, name.batch_id) == (query_id, last):
                    writer.storage.delete(file.name)
        self._skip_outbound_numbers(ledger.last_batch(query_id))
        logs.forget_planned(last)

    def _skip_outbound_numbers(self, before: BatchRow | None) -> None:
        """Let each shard number its outbound records above those that a batch may have sent."""
        manifest = self._checkpoint.manifest
        clocks = manifest.last_detail(before).clocks
        for key in manifest.shards.values():
            _now_ms, number = clocks.get(key, (0, 1))
            known = max(number, manifest.outbound_from.get(key, 1))
            manifest.outbound_from[key] = next_start(known)
        self._checkpoint.save()


def check_gaps(
    checkpoint: Checkpoint, topics: KafkaTopics, ledger: Ledger, *, accept_loss: bool
) -> AcceptedLoss:
    """Refuse gaps in the inputs' logs, or move the checkpoint behind them.

    Raises:
        LostRecordsError: there are gaps, and their loss is not accepted.
        LostLogError: there are gaps in the log of a sequenced vhost.
    """
    loss = AcceptedLoss(checkpoint)
    loss.move(topics.partitions)
    gaps = find_gaps(checkpoint.logs.next_positions(), topics, checkpoint.manifest)
    if gaps:
        error = lost(gaps, topics.logs)
        if not accept_loss or isinstance(error, LostLogError):
            raise error
        loss.accept(gaps, ledger, topics)
    return loss
