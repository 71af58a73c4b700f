"""The reports of a batch's tasks to the driver: written files, and the result of each shard.

`ShardStats` keeps the latest figures of each shard, across batches and restarts.
"""

import logging
from collections.abc import Callable, Container, Iterable
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from streaming.broker.lanes import LanePart
from streaming.broker.message import NEVER
from streaming.broker.redrives.agreement import LaneNote
from streaming.contents.pending_nets import ShardNet
from streaming.ledger.batch_detail import BatchDetail, TruncatedRecords
from streaming.ledger.write.data_file import DataFile
from streaming.pipeline.shard_block import FILES_KEY
from streaming.pipeline.traffic import BatchTraffic, TrafficTotals

logger = logging.getLogger(__name__)

MAX_NAMED_RECORDS = 100
"""The most truncated records that a batch row names."""

NEWEST_WEIGHT = 0.3
"""Weight of the newest batch in the mean size of messages."""


class TruncatedRecord(msgspec.Struct, frozen=True):
    """An outbound record that was too large for its topic; `bytes` is its complete size.

    Attributes:
        left_out: the amount that each omitted part had.
        message: topic number, partition and offset of the message; None for an answer.
    """

    vhost: str
    lane: int
    seq: int
    kind: str
    channel: str
    bytes: int
    left_out: dict[str, int]
    message: tuple[int, int, int] | None = None


FaultKind = Literal["quarantined", "unroutable", "returned", "publish_errors"]

FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

MAX_FAULT_CAUSES = 50
"""The most causes of one kind that a task distinguishes; a client may invent any number."""

OTHER_CAUSES = "other causes"


class FaultCount(msgspec.Struct, frozen=True):
    """Publishes of a batch that did not reach a queue, or were not understood, for one cause.

    Attributes:
        place: the Kafka topic of quarantined records; else the vhost.
        cause: of quarantined records; the exchange; or the text of the channel error.
        example: the first one, for people.
    """

    kind: FaultKind
    place: str
    cause: str
    count: int
    example: str


class FaultCounter:
    """Counts faults by kind, place and cause."""

    def __init__(self) -> None:
        self._counts: dict[tuple[FaultKind, str, str], int] = {}
        self._examples: dict[tuple[FaultKind, str, str], str] = {}

    def add(self, kind: FaultKind, place: str, cause: str, example: Callable[[], str]) -> None:
        """Count one; `example` describes it if it is the first."""
        key = (kind, place, cause)
        if key not in self._counts and len(self._counts) >= MAX_FAULT_CAUSES:
            key = (kind, place, OTHER_CAUSES)
        if key not in self._examples:
            self._examples[key] = example()
        self._counts[key] = self._counts.get(key, 0) + 1

    def counts(self) -> list[FaultCount]:
        """Return the counts, ordered by the first fault of each cause."""
        return [FaultCount(*key, n, self._examples[key]) for key, n in self._counts.items()]


class IntakeReport(msgspec.Struct, frozen=True):
    """The report of one task of the first stage.

    Attributes:
        seconds: time spent waiting for records, understanding them, and writing the last bodies.
        arrivals: instant in Kafka, epoch milliseconds -> how many records; neighbours are merged.
        commands, command_bytes: valid commands, and their size in Kafka.
    """

    files: list[DataFile]
    seconds: dict[str, float]
    faults: list[FaultCount] = []
    arrivals: dict[int, int] = {}
    commands: int = 0
    command_bytes: int = 0


class ShardReport(msgspec.Struct, frozen=True):
    """The report of one shard.

    Attributes:
        publishes, published_bytes: published records, and the size of their bodies.
        resident_bytes: bodies of resident copies; state_bytes: estimated size of their entries.
        seconds: time spent unpacking, folding, writing rows, sending records, saving state.
        truncated: outbound records that were too large for their topic.
        warnings: details of the batch's WARNING events; a shard reports a limited number.
        faults: publishes that no queue took, or that were refused.
        traffic: what the batch did, counted for the metrics.
        net: encoded net changes of the queues; empty if there are none, None if they are too large.
        next_outbound: number of the shard's next outbound record.
        parts: what the lane answers to commands that all lanes answer together.
        revived: messages that redrives put into queues although they were in none.
        redrives: how far open redrives have come on the lane, in a vhost of several lanes.
        compared: the last range of offsets of a log whose digest was compared, and equal.
        revived_from: the version of `messages` that had these messages; None: it asked for none.
    """

    shard: int
    vhost: str
    lane: int
    files: list[DataFile]
    records: int
    publishes: int
    published_bytes: int
    events: int
    deaths: dict[str, int]
    resident_messages: int
    resident_bytes: int
    state_bytes: int
    now_ms: int
    next_deadline_ms: int
    outbound: int
    seconds: dict[str, float]
    truncated: list[TruncatedRecord]
    warnings: list[dict[str, Any]] = []
    faults: list[FaultCount] = []
    traffic: BatchTraffic = BatchTraffic()
    net: bytes | None = b""
    next_outbound: int = 0
    parts: list[LanePart] = []
    revived: list[tuple[int, int, int]] = []
    redrives: list[LaneNote] = []
    revived_from: int | None = None
    compared: tuple[int, int] | None = None


class BatchDone(msgspec.Struct, frozen=True):
    """A committed batch.

    Attributes:
        seconds: duration of each part; for parallel tasks, that of the slowest.
        faults: how many publishes did not reach a queue or were not understood, by kind.
        causes: the same, by cause.
        arrivals: as `IntakeReport` has them, of all tasks.
        offsets: topic -> partition -> the next offset to read.
        totals: of all batches so far; None in tests of other figures.
    """

    batch_id: int
    now_ms: int
    reports: list[ShardReport]
    records: int
    events: int
    seconds: dict[str, float]
    faults: dict[str, int] = {}
    causes: list[FaultCount] = []
    arrivals: list[tuple[int, int]] = []
    offsets: dict[str, dict[str, int]] = {}
    totals: TrafficTotals | None = None


class Reports(NamedTuple):
    """The reports of a batch's tasks, and the files of both stages."""

    files: list[DataFile]
    intake: list[IntakeReport]
    shards: list[ShardReport]

    def faults(self) -> list[FaultCount]:
        """Return the faults that all tasks counted."""
        faults = [fault for task in self.intake for fault in task.faults]
        faults += [fault for shard in self.shards for fault in shard.faults]
        return sorted(faults, key=lambda one: (one.kind, one.place, one.cause, one.example))

    def fault_totals(self) -> dict[str, int]:
        """Return the number of faults of each kind, zero included."""
        totals: dict[str, int] = dict.fromkeys(FAULT_KINDS, 0)
        for fault in self.faults():
            totals[fault.kind] += fault.count
        return totals

    def commands(self) -> tuple[int, int]:
        """Return the number of commands that all tasks read, and their bytes."""
        return sum(task.commands for task in self.intake), sum(
            task.command_bytes for task in self.intake
        )

    def nets(self) -> list[ShardNet] | None:
        """Return the net changes of all shards; None if a shard could not report its own."""
        found = []
        for report in self.shards:
            if report.net is None:
                return None
            if report.net:
                found.append(ShardNet(report.vhost, report.lane, report.net))
        return found

    def revived(self) -> list[tuple[int, int, int]]:
        """Return the messages that were put into queues although they were in none."""
        return [key for report in self.shards for key in report.revived]

    def least_version(self, version: int) -> int:
        """Return this version of `messages`, or an earlier one that a task looked letters up in."""
        found = [each.revived_from for each in self.shards if each.revived_from is not None]
        return min([version, *found])

    def truncated(self) -> TruncatedRecords | None:
        """Log truncated outbound records, and return what the batch row says of them."""
        truncated = [record for report in self.shards for record in report.truncated]
        if not truncated:
            return None
        first = truncated[0]
        logger.warning(
            "%d outbound records were too large for their topics and were truncated (header "
            "dlx-left-out). The first is a %s of %d bytes to channel %r of vhost %r%s; it was sent "
            "without %s",
            len(truncated),
            first.kind,
            first.bytes,
            first.channel,
            first.vhost,
            "" if first.message is None else ", message {}/{}/{}".format(*first.message),
            first.left_out,
        )
        named = [msgspec.to_builtins(record) for record in truncated[:MAX_NAMED_RECORDS]]
        return TruncatedRecords(len(truncated), named)

    def done(
        self,
        batch_id: int,
        now_ms: int,
        seconds: dict[str, float],
        offsets: dict[str, dict[str, int]],
        totals: TrafficTotals,
    ) -> BatchDone:
        """Describe the committed batch.

        Args:
            seconds: durations of the driver's parts.
            offsets: topic -> partition -> the next offset to read.
            totals: of all batches so far.
        """
        slowest: dict[str, float] = {}
        intake_seconds = [report.seconds for report in self.intake]
        for durations in (*intake_seconds, *(report.seconds for report in self.shards)):
            for name, duration in durations.items():
                slowest[name] = round(max(duration, slowest.get(name, 0.0)), 4)
        records = sum(report.records for report in self.shards)
        events = sum(report.events for report in self.shards)
        return BatchDone(
            batch_id,
            now_ms,
            self.shards,
            records,
            events,
            {**seconds, **slowest},
            self.fault_totals(),
            self.faults(),
            [pair for task in self.intake for pair in task.arrivals.items()],
            offsets,
            totals,
        )


_encoder = msgspec.msgpack.Encoder()
_intake_decoder = msgspec.msgpack.Decoder(IntakeReport)
_shard_decoder = msgspec.msgpack.Decoder(ShardReport)


def encode_report(report: IntakeReport | ShardReport) -> bytes:
    """Encode a report for a row (shard, report)."""
    return _encoder.encode(report)


def read_reports(rows: Iterable[Any]) -> Reports:
    """Decode the rows (shard, report) of a batch.

    Files and shards are sorted: the order of the rows depends on Spark's tasks.
    """
    intake, shards = [], []
    for row in rows:
        if row["shard"] == FILES_KEY:
            intake.append(_intake_decoder.decode(bytes(row["report"])))
        else:
            shards.append(_shard_decoder.decode(bytes(row["report"])))
    files = [file for task in intake for file in task.files]
    files += [file for shard in shards for file in shard.files]
    files.sort(key=lambda file: file.path)
    return Reports(files, intake, sorted(shards, key=lambda one: one.shard))


class ShardStats:
    """Resident messages, resident bytes and next deadline by shard; the recent mean body size.

    Args:
        detail: the detail of the last batch row; empty for a new checkpoint.

    Attributes:
        clocks: the time of each shard, and the number of its next outbound record.
        compared: the last range of the log of each sequenced vhost whose digest was equal.
    """

    def __init__(self, detail: BatchDetail) -> None:
        self.resident = dict(detail.resident)
        self.deadlines = dict(detail.next_deadline_ms)
        self.mean_bytes = detail.mean_bytes
        self.clocks = dict(detail.clocks)
        self.compared = dict(detail.compared)

    def update(self, reports: list[ShardReport]) -> None:
        """Replace the figures of the shards that a batch reports."""
        published = size = 0
        for report in reports:
            self.resident[report.shard] = (
                report.resident_messages,
                report.resident_bytes + report.state_bytes,
            )
            self.deadlines[report.shard] = report.next_deadline_ms
            self.clocks[report.shard] = (report.now_ms, report.next_outbound)
            if report.compared is not None:
                self.compared[report.vhost] = report.compared
            published += report.publishes
            size += report.published_bytes
        if published:
            mean, known = size / published, self.mean_bytes
            smoothed = known * (1 - NEWEST_WEIGHT) + mean * NEWEST_WEIGHT
            self.mean_bytes = max(mean, smoothed) if known else mean

    @property
    def resident_bytes(self) -> int:
        """Bytes of the resident messages of all shards."""
        return self.resident_bytes_without(())

    def resident_bytes_without(self, shards: Container[int]) -> int:
        """Bytes of the resident messages of all other shards."""
        return sum(size for shard, (_, size) in self.resident.items() if shard not in shards)

    @property
    def resident_messages(self) -> int:
        """Resident messages of all shards."""
        return sum(messages for messages, _size in self.resident.values())

    def due_ms(self) -> dict[int, int]:
        """Return the next deadline of each shard that has one."""
        return {shard: due_ms for shard, due_ms in self.deadlines.items() if due_ms < NEVER}
