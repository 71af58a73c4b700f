"""What a batch's tasks tell the driver: files written, and a report of each shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from streaming.pipeline.intake import decode_files
from streaming.pipeline.processor import ShardReport
from streaming.pipeline.tasks import FILES_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.ledger.files import DataFile

_reports = msgspec.msgpack.Decoder(ShardReport)


class BatchDone(msgspec.Struct, frozen=True):
    """A batch that was committed."""

    batch_id: int
    now_ms: int
    reports: list[ShardReport]
    records: int
    events: int
    seconds: dict[str, float]


def read_reports(rows: Iterable[Any]) -> tuple[list[DataFile], list[ShardReport]]:
    """The files and reports in the rows (shard, report) of a batch."""
    files: list[DataFile] = []
    reports = []
    for row in rows:
        if row["shard"] == FILES_KEY:
            files.extend(decode_files(bytes(row["report"])))
        else:
            reports.append(_reports.decode(bytes(row["report"])))
    for report in reports:
        files.extend(report.files)
    return files, reports
