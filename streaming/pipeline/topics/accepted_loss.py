"""Going on behind a hole in the log, once the operator has said so (`dlx run --accept-loss`).

    lost.json written --> the checkpoint's offsets moved behind the hole --> the next batch
        writes a quarantine row a range --> lost.json removed

Replay: a crash anywhere leaves lost.json, and the next start does the rest; moving the offsets
twice is moving them once, and the rows belong to a batch as all rows do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import build_table
from streaming.ledger.write.data_file import DataFile, DataFileName, write_data_file
from streaming.pipeline.checkpoint.checkpoint import Checkpoint, CheckpointError
from streaming.pipeline.checkpoint.json_file import read_kept
from streaming.pipeline.topics.offset_gaps import Hole, LostRecordsError, find_holes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.ledger.write.ledger import Ledger
    from streaming.pipeline.topics.admin import KafkaTopics

FILE = "lost.json"
CAUSE = "lost_in_kafka"
CAUSE_TOPIC = "lost_topic"

_SPEC = TABLES["quarantine"]
_REMEDY = (
    "Restore it from a copy, or move it away: the job then asks again about what is still in front "
    "of it, and ranges that it is behind already get no row in quarantine"
)


class AcceptedLoss:
    """The ranges whose loss was accepted and which have no row yet.

    Raises:
        DamagedFileError: lost.json cannot be read.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._path = checkpoint.path / FILE
        self._checkpoint = checkpoint
        self.holes = read_kept(self._path, list[Hole], _REMEDY) or []

    def accept(self, holes: Sequence[Hole], ledger: Ledger, topics: KafkaTopics) -> None:
        """Remember the holes and move the checkpoint behind them.

        Raises:
            CheckpointError: the batch that must be finished needs the lost records.
        """
        self._make_way(ledger)
        known = {(hole.topic_number, hole.partition, hole.start) for hole in self.holes}
        self.holes += [
            hole for hole in holes if (hole.topic_number, hole.partition, hole.start) not in known
        ]
        unfinished = self._path.with_suffix(".unfinished")
        unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(self.holes)))
        unfinished.replace(self._path)
        for hole in self._made_anew():
            self._checkpoint.job_file.topic_number(topics.identities[hole.topic], hole.topic)
        self._checkpoint.save()
        self.move(topics.partitions)

    def move(self, partitions: Mapping[str, int]) -> None:
        """Let the next batch begin behind the holes."""
        moved: dict[str, dict[str, int]] = {}
        for hole in self.holes:
            ends = moved.setdefault(hole.topic, {})
            if hole.end is None and not ends:
                ends.update({str(number): 0 for number in range(partitions[hole.topic])})
            if hole.partition < partitions[hole.topic]:
                ends[str(hole.partition)] = hole.resume
        batch_id = self._checkpoint.last_committed()
        if moved and batch_id is not None:
            _edit(self._checkpoint, batch_id, moved, {hole.topic for hole in self._made_anew()})

    def _made_anew(self) -> list[Hole]:
        return [hole for hole in self.holes if hole.end is None]

    def _make_way(self, ledger: Ledger) -> None:
        """Drop a batch that was begun and is in no table: it will be made of other records."""
        last = self._checkpoint.last_planned()
        committed = self._checkpoint.last_committed()
        if last is None or last == committed:
            return
        query_id = self._checkpoint.query_id()
        assert query_id is not None, "a batch without a query"
        if committed is None:
            raise CheckpointError(
                f"{self._checkpoint.path}: the first batch was begun and cannot be finished. Give "
                "the job a new checkpoint and new tables"
            )
        for writer in ledger.writers.values():
            known = writer.last_batch(query_id)
            if known is not None and known >= last:
                raise CheckpointError(
                    f"{self._checkpoint.path}: batch {last} is in some tables and not in all, and "
                    "finishing it needs records that Kafka has lost. Restore them"
                )
        for writer in ledger.writers.values():
            for file in list(writer.storage.files()):
                name = DataFileName.parse(file.name)
                if name is not None and (name.query_id, name.batch_id) == (query_id, last):
                    writer.storage.delete(file.name)
        self._checkpoint.forget_planned(last)

    def files(self, ledger: Ledger, query_id: str, batch_id: int) -> list[DataFile]:
        """The file with the rows, as part of a batch; none if nothing was lost."""
        if not self.holes:
            return []
        count = len(self.holes)
        columns: dict[str, Any] = {
            "query_id": [query_id] * count,
            "batch_id": [batch_id] * count,
            "topic_number": [hole.topic_number for hole in self.holes],
            "partition": [hole.partition for hole in self.holes],
            "offset": [hole.start for hole in self.holes],
            "end_offset": [hole.end for hole in self.holes],
            "origin.topic": [hole.topic for hole in self.holes],
            "origin.topic_number": [hole.topic_number for hole in self.holes],
            "origin.partition": [hole.partition for hole in self.holes],
            "origin.offset": [hole.start for hole in self.holes],
            "cause": [CAUSE_TOPIC if hole.end is None else CAUSE for hole in self.holes],
            "detail": [f"lost in Kafka, by --accept-loss: {hole}" for hole in self.holes],
        }
        name = DataFileName(query_id, batch_id, "lost", 0)
        storage = ledger.root.below(_SPEC.name).storage()
        file = write_data_file(storage, _SPEC, name, build_table(_SPEC.schema, columns, count))
        return [] if file is None else [file]

    def written(self) -> None:
        """The batch with the rows is committed."""
        if self.holes:
            self._path.unlink(missing_ok=True)
            self.holes = []


def face_holes(
    checkpoint: Checkpoint, topics: KafkaTopics, ledger: Ledger, *, accept_loss: bool
) -> AcceptedLoss:
    """Refuse holes in the inputs' logs, or go on behind them.

    Raises:
        LostRecordsError: there are holes, and their loss is not accepted.
    """
    loss = AcceptedLoss(checkpoint)
    loss.move(topics.partitions)
    holes = find_holes(checkpoint.positions(), topics, checkpoint.job_file)
    if holes and not accept_loss:
        raise LostRecordsError(holes)
    if holes:
        loss.accept(holes, ledger, topics)
    return loss


def _edit(
    checkpoint: Checkpoint,
    batch_id: int,
    moved: Mapping[str, Mapping[str, int]],
    replaced: set[str],
) -> None:
    """Change where partitions end in Spark's log of a finished batch: the next begins there.

    Args:
        replaced: topics whose other partitions are forgotten.
    """
    path = checkpoint.path / "offsets" / str(batch_id)
    lines = path.read_text().splitlines()
    for index, line in enumerate(lines[2:], 2):  # SOURCE:{"TOPIC":{"PARTITION":OFFSET}}
        source, _colon, text = line.partition(":")
        if not text.startswith("{"):
            continue
        offsets = json.loads(text)
        for topic in offsets.keys() & moved.keys():
            kept = {} if topic in replaced else offsets[topic]
            offsets[topic] = {**kept, **moved[topic]}
        lines[index] = f"{source}:{json.dumps(offsets, separators=(',', ':'))}"
    unfinished = path.with_name(f".{batch_id}.unfinished")
    unfinished.write_text("\n".join(lines))
    path.with_name(f".{batch_id}.crc").unlink(missing_ok=True)  # of the text that was
    unfinished.replace(path)
