"""The live view of `dlx run --watch`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table

if TYPE_CHECKING:
    from streaming.pipeline.flow.gate import GateState
    from streaming.pipeline.reports import BatchDone
    from streaming.pipeline.shard_stats import ShardsSeen

KEPT_BATCHES = 10


class LiveView:
    """The last batches, what is resident, deaths by reason, the gate."""

    def __init__(self) -> None:
        self._batches: list[BatchDone] = []
        self._deaths: Counter[str] = Counter()
        self._live = Live(refresh_per_second=4)
        self._live.start()

    def show(self, done: BatchDone, shards: ShardsSeen, gate: GateState) -> None:
        """Take a batch in."""
        self._batches = [*self._batches, done][-KEPT_BATCHES:]
        for report in done.reports:
            self._deaths.update(report.deaths)
        self._live.update(self._table(shards, gate))

    def _table(self, shards: ShardsSeen, gate: GateState) -> Table:
        deaths = ", ".join(f"{count} {reason}" for reason, count in sorted(self._deaths.items()))
        table = Table(
            title=f"{shards.resident_messages} messages resident, {shards.resident_bytes} bytes; "
            f"gate {'open' if gate.open else 'closed'}; dead: {deaths or 'none'}"
        )
        for name in ("batch", "records", "events", "stages s", "commit s"):
            table.add_column(name, justify="right")
        for done in self._batches:
            table.add_row(
                str(done.batch_id),
                str(done.records),
                str(done.events),
                f"{done.seconds['stages']:.3f}",
                f"{done.seconds['commit']:.3f}",
            )
        return table

    def close(self) -> None:
        """Leave the last view on the terminal."""
        self._live.stop()
