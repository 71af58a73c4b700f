"""The latest figures of each shard, kept across batches and, through batch rows, restarts."""

from typing import Any

from streaming.broker.message import NEVER
from streaming.pipeline.reports import ShardReport

NEWEST_WEIGHT = 0.3
"""Weight of the newest batch in the mean size of messages."""


class ShardStats:
    """Resident messages, resident bytes and next deadline by shard; the recent mean body size.

    Args:
        detail: the detail of the last batch row; empty for a new checkpoint.
    """

    def __init__(self, detail: dict[str, Any]) -> None:
        self.resident: dict[int, tuple[int, int]] = {
            int(shard): (messages, size)
            for shard, (messages, size) in detail.get("resident", {}).items()
        }
        self.deadlines: dict[int, int] = {
            int(shard): due_ms for shard, due_ms in detail.get("next_deadline_ms", {}).items()
        }
        self.mean_bytes = float(detail.get("mean_bytes", 0.0))

    def update(self, reports: list[ShardReport]) -> None:
        """Replace the figures of the shards that a batch reports."""
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
            mean, known = size / published, self.mean_bytes
            smoothed = known * (1 - NEWEST_WEIGHT) + mean * NEWEST_WEIGHT
            self.mean_bytes = max(mean, smoothed) if known else mean

    @property
    def resident_bytes(self) -> int:
        """Bytes of the resident messages of all shards."""
        return sum(size for _messages, size in self.resident.values())

    @property
    def resident_messages(self) -> int:
        """Resident messages of all shards."""
        return sum(messages for messages, _size in self.resident.values())

    def detail(self) -> dict[str, Any]:
        """Return the figures as the batch row stores them."""
        return {
            "resident": {str(shard): list(pair) for shard, pair in sorted(self.resident.items())},
            "next_deadline_ms": {
                str(shard): due_ms
                for shard, due_ms in sorted(self.deadlines.items())
                if due_ms < NEVER
            },
            "mean_bytes": round(self.mean_bytes, 1),
        }
