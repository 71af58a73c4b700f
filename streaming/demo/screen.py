"""What the demo shows while it runs: a live view, or plain lines without a terminal."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from streaming.demo.job_observer import Depth
from streaming.demo.order_process import QUEUES

LINE_EVERY_S: Final = 5.0
CURVE_S: Final = 30
MARKS: Final = "▁▂▃▄▅▆▇█"


class ScreenState(NamedTuple):
    """Everything that one screen shows.

    Attributes:
        elapsed_s: since the first committed batch; None before it.
        batches: committed in this run.
        batch_s: duration of the last one.
        lag_records: records in Kafka that no committed batch contains; None while Kafka is away.
        deaths, died_in: deaths in this run, by reason and by queue.
        console_link: logs in to the console; empty without one.
        failed_at: invoices that were dead-lettered in this run, by second.
    """

    elapsed_s: float | None
    total_s: float
    phase: str
    batches: int
    batch_s: float
    lag_records: int | None
    traffic: Mapping[str, int]
    depths: Mapping[str, Depth]
    deaths: Mapping[str, int]
    died_in: Mapping[str, int]
    gate_open: bool = True
    failed_at: Mapping[int, int] = {}
    console_link: str = ""


def plain_line(state: ScreenState) -> str:
    """The state in one line."""
    depths = ", ".join(
        f"{name} {state.depths[name].ready}+{state.depths[name].unacked}"
        for name in _queue_names(state)
        if name in state.depths
    )
    return (
        f"{_clock(state)} {state.phase}: {traffic_words(state.traffic)}; "
        f"queues (ready+unacked): {depths or 'empty'}; "
        f"deaths: {_deaths(state.deaths)}; {_job(state)}"
    )


def render(state: ScreenState) -> Group:
    """The state as a table of queues and three lines."""
    table = Table(title=f"{_clock(state)}  {state.phase}", title_justify="left", expand=False)
    table.add_column("queue", style="bold", no_wrap=True, min_width=max(map(len, QUEUES)))
    for name in ("ready", "unacked", "died here"):
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    table.add_column("", style="dim", overflow="ellipsis", no_wrap=True)
    for name in _queue_names(state):
        depth = state.depths.get(name, Depth())
        counts = (depth.ready, depth.unacked, state.died_in.get(name, 0))
        table.add_row(name, *map(str, counts), QUEUES.get(name, ""))
    console = [Text(f"console  {state.console_link}")] if state.console_link else []
    return Group(
        table,
        Text(f"deaths   {_deaths(state.deaths)}", style="yellow"),
        Text(f"curve    {_curve(state)}  invoices dead-lettered, second by second", style="red"),
        Text(f"traffic  {traffic_words(state.traffic)}"),
        Text(f"job      {_job(state)}"),
        *console,
    )


def _curve(state: ScreenState) -> str:
    """One mark per second, the latest CURVE_S of them; the highest one is the most."""
    last = int(state.elapsed_s or 0)
    counts = [state.failed_at.get(second, 0) for second in range(max(last - CURVE_S, 0), last + 1)]
    most = max([*state.failed_at.values(), 1])
    return "".join(MARKS[-(-count * (len(MARKS) - 1) // most)] for count in counts)


def traffic_words(
    counters: Mapping[str, int],
    names: tuple[str, ...] = ("published", "acked", "rejected", "requeued"),
) -> str:
    """What the publisher and the consumers did."""
    return ", ".join(f"{counters.get(name, 0)} {name}" for name in names)


def _queue_names(state: ScreenState) -> list[str]:
    """The story's queues, then any others."""
    return [*QUEUES, *sorted(state.depths.keys() - set(QUEUES))]


def _clock(state: ScreenState) -> str:
    if state.elapsed_s is None:
        return f"[ -/{state.total_s:.0f} s]"
    return f"[{min(state.elapsed_s, state.total_s):2.0f}/{state.total_s:.0f} s]"


def _deaths(deaths: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(deaths.items())) or "none yet"


def _job(state: ScreenState) -> str:
    if not state.batches:
        return "waiting for the first batch"
    gate = "" if state.gate_open else ", publishers held back by flow control"
    lag = "unknown" if state.lag_records is None else f"{state.lag_records} records"
    return f"batch {state.batches} took {state.batch_s * 1000:.0f} ms, lag {lag}{gate}"


class Screen:
    """Shows states on a console: a live view on a terminal, otherwise a line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = self._new_view() if console.is_terminal else None
        self._next_line_s = 0.0
        self._last_line = self._newest_line = ""

    def show(self, state: ScreenState, now_s: float) -> None:
        """Show a state; `now_s` is from a clock that never goes back."""
        if self._live is not None:
            self._live.start()  # has no effect on a view that is started
            self._live.update(render(state), refresh=True)
            return
        self._newest_line = plain_line(state)
        if now_s >= self._next_line_s:
            self._next_line_s = now_s + LINE_EVERY_S
            self._say_newest()

    def close(self) -> None:
        """Show the last state, and stop drawing; the last view stays on the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = self._new_view()  # one that starts again draws over what was said since
        else:
            self._say_newest()

    def _new_view(self) -> Live:
        return Live(console=self._console, auto_refresh=False)

    def _say_newest(self) -> None:
        if self._newest_line != self._last_line:
            say(self._console, self._newest_line)
        self._last_line = self._newest_line


def say(console: Console, text: str, style: str = "") -> None:
    """Print a text without markup; only the terminal wraps it."""
    console.print(Text(text, style=style), soft_wrap=True)
