"""The live view of `dlx run --watch`."""

from collections import Counter, deque

from rich.live import Live
from rich.table import Table

from streaming.pipeline.flow.batch_size import GateState
from streaming.pipeline.reports import BatchDone
from streaming.pipeline.shard_stats import ShardStats

SHOWN_BATCHES = 10


class LiveView:
    """Shows the last batches, resident messages, deaths by reason, and the gate."""

    def __init__(self) -> None:
        self._batches: deque[BatchDone] = deque(maxlen=SHOWN_BATCHES)
        self._deaths: Counter[str] = Counter()
        self._live = Live(refresh_per_second=4)
        self._live.start()

    def show(self, done: BatchDone, stats: ShardStats, gate: GateState) -> None:
        """Add a batch."""
        self._batches.append(done)
        for report in done.reports:
            self._deaths.update(report.deaths)
        self._live.update(self._table(stats, gate))

    def close(self) -> None:
        """End, and leave the last view on the terminal."""
        self._live.stop()

    def _table(self, stats: ShardStats, gate: GateState) -> Table:
        deaths = ", ".join(f"{count} {reason}" for reason, count in sorted(self._deaths.items()))
        table = Table(
            title=f"{stats.resident_messages} messages resident, {stats.resident_bytes} bytes; "
            f"gate {'open' if gate.open else 'closed'}; dead: {deaths or 'none'}"
        )
        for name in ("batch", "records", "events", "stages s", "commit s"):
            table.add_column(name, justify="right")
        for done in self._batches:
            counts = (done.batch_id, done.records, done.events)
            seconds = (done.seconds["stages"], done.seconds["commit"])
            table.add_row(*map(str, counts), *(f"{each:.3f}" for each in seconds))
        return table
