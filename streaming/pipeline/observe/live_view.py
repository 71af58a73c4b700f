"""The live view of `dlx run --watch`: the queues, below the lines of the log.

A thread asks the tables, so the figures are those of `dlx queues list`. On a terminal, lines of the
log appear above the table; elsewhere only the last table is printed, at the end.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from streaming.ledger.batch_detail import GateState
from streaming.pipeline.reports import FAULT_KINDS, BatchDone, ShardStats
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queue_activity import QueueActivity, QueueTraffic, queue_activity
from streaming.queries.queues import QueueDepth
from streaming.storage.location import Location

REFRESH_S: Final = 2.0
"""How often the tables are asked, at most."""

MAX_SHARE: Final = 0.2
"""The most time that the questions may take: a question of 1 s is repeated after 5 s."""

ROOM_LINES: Final = 8
"""Lines of the terminal that the log, the title and the header keep."""

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))

logger = logging.getLogger(__name__)


class _Shown(NamedTuple):
    activity: QueueActivity
    seconds: float
    """How long the traffic took."""


class LiveView:
    """Shows depth, rates, oldest message and consumers of each queue.

    Args:
        tables: where the job's tables are.
    """

    def __init__(self, tables: Location, console: Console | None = None) -> None:
        self._tables = tables
        self._console = console or Console(stderr=True)
        self._summary = "waiting for the first batch"
        self._faults = dict.fromkeys(FAULT_KINDS, 0)
        self._shown: _Shown | None = None
        self._asked_s = 0.0
        self._stopping = threading.Event()
        self._live = Live(
            console=self._console,
            get_renderable=self._renderable,
            refresh_per_second=2,
            transient=False,
        )
        self._live.start()
        self._thread = threading.Thread(target=self._follow, name="live-view", daemon=True)
        self._thread.start()

    def show(self, done: BatchDone, stats: ShardStats, gate: GateState) -> None:
        """Show the figures of a batch above the queues."""
        for kind in FAULT_KINDS:
            self._faults[kind] += done.faults.get(kind, 0)
        faults = "".join(
            f"; {count:,} {kind.replace('_', ' ')}" for kind, count in self._faults.items() if count
        )
        self._summary = (
            f"batch {done.batch_id}: {stats.resident_messages:,} messages, "
            f"{stats.resident_bytes:,} bytes; gate {'open' if gate.open else 'closed'}{faults}"
        )

    def close(self) -> None:
        """Ask once more, and leave the last view on the terminal."""
        self._stopping.set()
        self._thread.join()
        self._try_to_ask()
        self._live.stop()

    def ask(self) -> None:
        """Ask the tables.

        Raises:
            QueryError: they cannot answer now; the last answer stays.
        """
        before = self._shown
        asked_s = time.monotonic()
        tables = Tables(self._tables.url, self._tables.options, threads=1)
        try:
            activity = queue_activity(tables, None if before is None else before.activity.batch_id)
        finally:
            tables.close()
        self._shown = _Shown(activity, asked_s - self._asked_s)
        self._asked_s = asked_s

    def _try_to_ask(self) -> None:
        try:
            self.ask()
        except Exception:  # such as tables that are being created; a view must not stop the job
            logger.debug("the live view could not ask the tables", exc_info=True)

    def _follow(self) -> None:
        pause_s = 0.0
        while not self._stopping.wait(pause_s):
            began_s = time.monotonic()
            self._try_to_ask()
            took_s = time.monotonic() - began_s
            pause_s = max(REFRESH_S - took_s, took_s / MAX_SHARE - took_s, 0.1)

    def _renderable(self) -> Group:
        shown = self._shown
        if shown is None:
            return _view_of(self._summary, [])
        room = max(self._console.height - ROOM_LINES, 3)
        if not self._console.is_terminal:
            room = len(shown.activity.queues)
        return _view_of(self._summary, _rows(shown, room), _left_out(shown, room))


def _view_of(summary: str, rows: Iterable[Mapping[str, str]], caption: str = "") -> Group:
    table = Table(caption=caption or None, box=box.SIMPLE_HEAD, pad_edge=False)
    rows = list(rows)
    names = list(rows[0]) if rows else ["queue", "ready", "unacked", "in/s", "out/s"]
    for name in names:
        is_text = name in {"vhost", "queue"}
        table.add_column(
            name, justify="left" if is_text else "right", no_wrap=True, overflow="ellipsis"
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row.values()))
    return Group(Text(summary), table)


def _rows(shown: _Shown, room: int) -> Iterable[dict[str, str]]:
    activity = shown.activity
    now = datetime.now(UTC)
    many = len({depth.vhost for depth in activity.queues}) > 1
    for depth in sorted(activity.queues, key=_by_depth)[:room]:
        key = (depth.vhost, depth.queue)
        traffic = activity.traffic.get(key, QueueTraffic())
        yield {
            **({"vhost": depth.vhost} if many else {}),
            "queue": depth.queue,
            "ready": f"{depth.ready:,}",
            "unacked": f"{depth.unacked:,}",
            "in/s": _rate(traffic.entered, shown.seconds),
            "out/s": _rate(traffic.left, shown.seconds),
            "oldest": _age(depth.oldest_at, now),
            "consumers": str(activity.consumers.get(key, 0)),
        }


def _by_depth(depth: QueueDepth) -> tuple[int, str, str]:
    return -(depth.ready + depth.unacked), depth.vhost, depth.queue


def _left_out(shown: _Shown, room: int) -> str:
    count = len(shown.activity.queues) - room
    return f"{count:,} shorter queues are not shown" if count > 0 else ""


def _rate(count: int, seconds: float) -> str:
    if not count or seconds <= 0:
        return "0"
    rate = count / seconds
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"  # noqa: PLR2004 - two digits


def _age(instant: str | None, now: datetime) -> str:
    if instant is None:
        return "-"
    seconds = max(int((now - datetime.fromisoformat(instant)).total_seconds()), 0)
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
