"""What each shard last said of itself, kept across batches and restarts (from the batch rows)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaming.broker.message import NEVER

if TYPE_CHECKING:
    from streaming.pipeline.fold.processor import ShardReport

RECENT = 0.3
"""Weight of the newest batch in the mean size of messages."""


class ShardsSeen:
    """Resident messages and bytes, and next deadline, of every shard; the recent mean body size."""

    def __init__(self, detail: dict[str, Any] | None) -> None:
        detail = detail or {}
        self.resident: dict[int, tuple[int, int]] = {
            int(shard): (messages, size)
            for shard, (messages, size) in detail.get("resident", {}).items()
        }
        self.deadlines: dict[int, int] = {
            int(shard): due_ms for shard, due_ms in detail.get("next_deadline_ms", {}).items()
        }
        self.mean_bytes = float(detail.get("mean_bytes", 0.0))

    def learn(self, reports: list[ShardReport]) -> None:
        """Take a batch's reports in."""
        published = size = 0
        for report in reports:
            self.resident[report.shard] = (
                report.resident_messages,
                report.resident_bytes + report.state_bytes,
            )
            self.deadlines[report.shard] = report.next_deadline_ms
            published += report.publishes
            size += report.published_bytes
        if published:
            mean = size / published
            known = self.mean_bytes
            self.mean_bytes = mean if not known else max(mean, known * (1 - RECENT) + mean * RECENT)

    @property
    def resident_bytes(self) -> int:
        """Of all shards."""
        return sum(size for _messages, size in self.resident.values())

    @property
    def resident_messages(self) -> int:
        """Of all shards."""
        return sum(messages for messages, _size in self.resident.values())

    def detail(self) -> dict[str, Any]:
        """For the batch row."""
        return {
            "resident": {str(shard): list(pair) for shard, pair in sorted(self.resident.items())},
            "next_deadline_ms": {
                str(shard): due_ms
                for shard, due_ms in sorted(self.deadlines.items())
                if due_ms < NEVER
            },
            "mean_bytes": round(self.mean_bytes, 1),
        }
