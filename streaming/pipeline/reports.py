"""What a batch's tasks tell the driver: files written, and a report of each shard."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from streaming.pipeline.fold.processor import ShardReport
from streaming.pipeline.intake.stage import IntakeReport, decode_report
from streaming.pipeline.task.context import FILES_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.ledger.write.data_file import DataFile

logger = logging.getLogger(__name__)

MOST_CUT_RECORDS = 100
"""Of a batch, that are named in its row."""

_reports = msgspec.msgpack.Decoder(ShardReport)


class BatchDone(msgspec.Struct, frozen=True):
    """A batch that was committed.

    Attributes:
        seconds: of its parts; of what tasks did side by side, the slowest.
    """

    batch_id: int
    now_ms: int
    reports: list[ShardReport]
    records: int
    events: int
    seconds: dict[str, float]


class Reports(NamedTuple):
    """What the tasks of a batch said, and the files of both stages."""

    files: list[DataFile]
    intake: list[IntakeReport]
    shards: list[ShardReport]

    @property
    def seconds(self) -> dict[str, float]:
        """How long each part took, of the tasks that did it the slowest."""
        slowest: dict[str, float] = {}
        told = [report.seconds for report in self.intake]
        for times in (*told, *(report.seconds for report in self.shards)):
            for name, seconds in times.items():
                slowest[name] = round(max(seconds, slowest.get(name, 0.0)), 4)
        return slowest

    def cut_detail(self) -> dict[str, Any]:
        """What the batch's row says of outbound records that were too large; logs it, too."""
        cut = [record for report in self.shards for record in report.cut]
        if not cut:
            return {}
        first = cut[0]
        logger.warning(
            "%d outbound records were too large for their topics and went out cut (header "
            "dlx-left-out); the first is a %s of %d bytes to channel %r of vhost %r%s, without %s",
            len(cut),
            first.kind,
            first.bytes,
            first.channel,
            first.vhost,
            "" if first.message is None else ", of message {}/{}/{}".format(*first.message),
            first.left_out,
        )
        named = [msgspec.to_builtins(record) for record in cut[:MOST_CUT_RECORDS]]
        return {"cut_records": {"count": len(cut), "first": named}}

    def done(self, batch_id: int, now_ms: int, seconds: dict[str, float]) -> BatchDone:
        """The batch, committed; `seconds` are the driver's."""
        records = sum(report.records for report in self.shards)
        events = sum(report.events for report in self.shards)
        all_seconds = {**seconds, **self.seconds}
        return BatchDone(batch_id, now_ms, self.shards, records, events, all_seconds)


def read_reports(rows: Iterable[Any]) -> Reports:
    """The reports in the rows (shard, report) of a batch."""
    intake = []
    shards = []
    for row in rows:
        if row["shard"] == FILES_KEY:
            intake.append(decode_report(bytes(row["report"])))
        else:
            shards.append(_reports.decode(bytes(row["report"])))
    files = [file for task in intake for file in task.files]
    files += [file for shard in shards for file in shard.files]
    return Reports(files, intake, shards)
