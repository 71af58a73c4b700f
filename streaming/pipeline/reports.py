"""What a batch's tasks report to the driver: files written, and the result of each shard."""

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from streaming.ledger.write.data_file import DataFile
from streaming.pipeline.shard_block import FILES_KEY

logger = logging.getLogger(__name__)

MAX_NAMED_RECORDS = 100
"""The most truncated records that a batch row names."""


class TruncatedRecord(msgspec.Struct, frozen=True):
    """An outbound record that was too large for its topic; `bytes` is its complete size.

    Attributes:
        left_out: what was left out, and how much of it.
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


class IntakeReport(msgspec.Struct, frozen=True):
    """The report of one task of the first stage.

    Attributes:
        seconds: time spent waiting for records, understanding them, and writing the last bodies.
    """

    files: list[DataFile]
    seconds: dict[str, float]


class ShardReport(msgspec.Struct, frozen=True):
    """The report of one shard.

    Attributes:
        publishes, published_bytes: published records, and the size of their bodies.
        resident_bytes: bodies of resident copies; state_bytes: estimated size of their entries.
        seconds: time spent unpacking, folding, writing rows, sending records, saving state.
        truncated: outbound records that were too large for their topic.
        warnings: details of the batch's WARNING events; a shard reports a limited number.
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
    state_bytes_read: int
    state_bytes_written: int
    now_ms: int
    next_deadline_ms: int
    outbound: int
    seconds: dict[str, float]
    truncated: list[TruncatedRecord]
    warnings: list[dict[str, Any]] = []


class BatchDone(msgspec.Struct, frozen=True):
    """A committed batch.

    Attributes:
        seconds: duration of each part; for parallel tasks, that of the slowest.
    """

    batch_id: int
    now_ms: int
    reports: list[ShardReport]
    records: int
    events: int
    seconds: dict[str, float]


class Reports(NamedTuple):
    """The reports of a batch's tasks, and the files of both stages."""

    files: list[DataFile]
    intake: list[IntakeReport]
    shards: list[ShardReport]

    def truncated_detail(self) -> dict[str, Any]:
        """Log truncated outbound records, and return what the batch row says about them."""
        truncated = [record for report in self.shards for record in report.truncated]
        if not truncated:
            return {}
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
        return {"cut_records": {"count": len(truncated), "first": named}}

    def done(self, batch_id: int, now_ms: int, seconds: dict[str, float]) -> BatchDone:
        """Describe the committed batch.

        Args:
            seconds: durations of the driver's parts.
        """
        slowest: dict[str, float] = {}
        intake_seconds = [report.seconds for report in self.intake]
        for durations in (*intake_seconds, *(report.seconds for report in self.shards)):
            for name, duration in durations.items():
                slowest[name] = round(max(duration, slowest.get(name, 0.0)), 4)
        records = sum(report.records for report in self.shards)
        events = sum(report.events for report in self.shards)
        return BatchDone(batch_id, now_ms, self.shards, records, events, {**seconds, **slowest})


_encoder = msgspec.msgpack.Encoder()
_intake_decoder = msgspec.msgpack.Decoder(IntakeReport)
_shard_decoder = msgspec.msgpack.Decoder(ShardReport)


def encode_report(report: IntakeReport | ShardReport) -> bytes:
    """Encode a report for a row (shard, report)."""
    return _encoder.encode(report)


def read_reports(rows: Iterable[Any]) -> Reports:
    """Decode the rows (shard, report) of a batch."""
    intake, shards = [], []
    for row in rows:
        if row["shard"] == FILES_KEY:
            intake.append(_intake_decoder.decode(bytes(row["report"])))
        else:
            shards.append(_shard_decoder.decode(bytes(row["report"])))
    files = [file for task in intake for file in task.files]
    files += [file for shard in shards for file in shard.files]
    return Reports(files, intake, shards)
