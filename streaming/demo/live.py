"""What the demo shows while it runs: a view drawn anew, or lines without a terminal."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from streaming.demo.depths import Depth
from streaming.demo.story import QUEUES

LINE_EVERY_S: Final = 5.0
NOTHING: Final = "none yet"

ROLES: Final = {
    "payments": "a worker acks, rejects, gives up after three times",
    "payments.retry": "waits 2 s, then back to payments",
    "shipping": "quorum, kafka-python worker; delivery limit 2",
    "quotes": "a slow worker; what waits 1.5 s expires",
    "parking-lot": "what somebody must look at",
    "dashboard": "holds 50, nobody reads: drops its oldest",
    "overflow": "what dashboard dropped; holds 200",
    "unroutable": "behind the alternate exchange: misspelt keys",
}


class Moment(NamedTuple):
    """All there is to show at one moment.

    Attributes:
        elapsed_s: since the first committed batch; None before it.
        batches: committed in this run.
        batch_s: how long the last one took.
        lag_records: in Kafka, and not in a committed batch.
        traffic: what publisher and consumers counted.
        deaths: by reason, in this run.
        died_in: deaths by queue, in this run.
        gate_open: whether publishes are read.
    """

    elapsed_s: float | None
    total_s: float
    phase: str
    batches: int
    batch_s: float
    lag_records: int
    traffic: Mapping[str, int]
    depths: Mapping[str, Depth]
    deaths: Mapping[str, int]
    died_in: Mapping[str, int]
    gate_open: bool = True


def plain_line(moment: Moment) -> str:
    """The moment in one line."""
    depths = ", ".join(
        f"{name} {depth.ready}+{depth.unacked}"
        for name, depth in sorted(moment.depths.items(), key=_place)
    )
    return (
        f"{_clock(moment)} {moment.phase}: {_traffic(moment.traffic)}; "
        f"queues (ready+unacked): {depths or 'empty'}; "
        f"deaths: {_deaths(moment.deaths)}; {_job(moment)}"
    )


def screen(moment: Moment) -> Group:
    """The moment as a view."""
    table = Table(title=f"{_clock(moment)}  {moment.phase}", title_justify="left", expand=False)
    table.add_column("queue", style="bold")
    for name in ("ready", "unacked", "died here"):
        table.add_column(name, justify="right")
    table.add_column("", style="dim", overflow="ellipsis", no_wrap=True)
    names = [*QUEUES, *sorted(moment.depths.keys() - set(QUEUES))]
    for name in names:
        depth = moment.depths.get(name, Depth())
        died = moment.died_in.get(name, 0)
        table.add_row(name, str(depth.ready), str(depth.unacked), str(died), ROLES.get(name, ""))
    return Group(
        table,
        Text(f"deaths   {_deaths(moment.deaths)}", style="yellow"),
        Text(f"traffic  {_traffic(moment.traffic)}"),
        Text(f"job      {_job(moment)}"),
    )


def _place(item: tuple[str, Depth]) -> tuple[int, str]:
    name = item[0]
    return (QUEUES.index(name) if name in QUEUES else len(QUEUES), name)


def _clock(moment: Moment) -> str:
    if moment.elapsed_s is None:
        return f"[ -/{moment.total_s:.0f} s]"
    return f"[{min(moment.elapsed_s, moment.total_s):2.0f}/{moment.total_s:.0f} s]"


def _traffic(traffic: Mapping[str, int]) -> str:
    names = ("published", "acked", "rejected", "requeued")
    return ", ".join(f"{traffic.get(name, 0)} {name}" for name in names)


def _deaths(deaths: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(deaths.items())) or NOTHING


def _job(moment: Moment) -> str:
    if not moment.batches:
        return "waiting for the first batch"
    gate = "" if moment.gate_open else ", publishers held back by flow control"
    return (
        f"batch {moment.batches} took {moment.batch_s * 1000:.0f} ms, "
        f"lag {moment.lag_records} records{gate}"
    )


class View:
    """Shows moments on a console.

    Args:
        console: where; it decides by being a terminal which form is shown.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._started = False
        self._next_line_s = 0.0
        self._last_line = ""

    def show(self, moment: Moment, now_s: float) -> None:
        """Show a moment; without a terminal, a line now and then.

        Args:
            now_s: of a clock that never goes back.
        """
        if self._live is not None:
            if not self._started:
                self._live.start()
                self._started = True
            self._live.update(screen(moment), refresh=True)
        elif now_s >= self._next_line_s:
            self._next_line_s = now_s + LINE_EVERY_S
            line = plain_line(moment)
            if line != self._last_line:
                say(self._console, line)
            self._last_line = line

    def close(self) -> None:
        """Leave the last view on the terminal."""
        if self._live is not None and self._started:
            self._live.stop()
            self._started = False


def say(console: Console, text: str, style: str = "") -> None:
    """Print a text as it is: no markup, no wrapping but the terminal's own."""
    console.print(Text(text, style=style), soft_wrap=True)


class Deaths:
    """Deaths by reason and by queue."""

    def __init__(self) -> None:
        self.by_reason: Counter[str] = Counter()
        self.by_queue: Counter[str] = Counter()

    def add(self, reason: str, queue: str) -> None:
        """Count one."""
        self.by_reason[reason] += 1
        self.by_queue[queue] += 1
