"""The hours of the demo's shop: what happens from the first batch to the last one.

first batch --> traffic for N seconds, with a bad deploy
--> no more publishes --> its dead letters are found, sent back and acknowledged
--> all input committed
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from streaming.demo.errors import DemoError
from streaming.demo.job_observer import JobObserver
from streaming.demo.order_process import BAD_RELEASE, REPAIRED_RELEASE, WORKED
from streaming.demo.screen import Screen, ScreenState
from streaming.demo.steps import Step
from streaming.demo.story import (
    DEPLOYED_AT,
    MIN_POISONED,
    REPAIRED_AT,
    Story,
    enter_was_pressed,
)
from streaming.demo.traffic import Traffic
from streaming.pipeline.job import Job
from streaming.storage.location import Location

SOON_MS: Final = 5_000
"""The demo waits for timers that are due within this time: the last retries."""


class Waits(NamedTuple):
    """How long to wait.

    Attributes:
        look_s: between two looks at the state.
        quiet_s: how long there must have been no batch at the end.
        finish_s: for consumers and acknowledgements.
        settle_s: for the job, until it has committed everything.
    """

    look_s: float = 0.5
    quiet_s: float = 1.5
    finish_s: float = 30.0
    settle_s: float = 120.0


WAITS: Final = Waits()


class ShopHours:
    """The shop, beside a running job.

    Args:
        tables: of the job.
        logs: the folder with the job's logs, for errors.
        seconds: duration of the traffic, from the first committed batch.
        console_link: where the console is; empty: nowhere.
    """

    def __init__(
        self,
        job: Job,
        traffic: Traffic,
        observer: JobObserver,
        view: Screen,
        story: Story,
        tables: Location,
        logs: Path,
        seconds: float,
        console_link: str = "",
        waits: Waits = WAITS,
    ) -> None:
        self._job = job
        self._traffic = traffic
        self._observer = observer
        self._view = view
        self._story = story
        self._tables = tables
        self._logs = logs
        self._seconds = seconds
        self._console_link = console_link
        self._waits = waits
        self._phase = "the shop is open"

    def play(self) -> None:
        """Run the traffic, tell the story, and wait until all input is committed.

        Raises:
            DemoError: the traffic failed, or the job does not catch up.
        """
        observer, traffic, waits = self._observer, self._traffic, self._waits

        def has_passed(share: float) -> bool:
            first_s = observer.first_batch_s
            return first_s is not None and time.monotonic() - first_s >= self._seconds * share

        def invoices(decision: str) -> int:
            return traffic.counters.snapshot().get(f"invoices {decision}ed", 0)

        def work_is_done() -> bool:
            return not observer.depths.by_queue().keys() & set(WORKED) and self._lag() == 0

        def all_is_committed() -> bool:
            due_ms = observer.next_deadline_ms - time.time_ns() // 1_000_000
            is_quiet = time.monotonic() - observer.last_batch_s >= waits.quiet_s
            return is_quiet and due_ms > SOON_MS and self._lag() == 0

        story = self._story
        self._show_until(lambda: observer.batches > 0)
        traffic.start()  # the front would take it earlier, and the job begin with a backlog
        self._show_until(lambda: has_passed(DEPLOYED_AT) and invoices("ack") > 0)
        self._pause(Step.deploy)
        story.deploy(Step.deploy, BAD_RELEASE, "round amounts to cents")
        traffic.deploy(BAD_RELEASE)
        self._phase = f"the shop is open, release {BAD_RELEASE} is deployed"
        self._show_until(
            lambda: has_passed(REPAIRED_AT) and observer.failed >= MIN_POISONED,
            self._seconds + waits.finish_s,
        )
        self._pause(Step.repair)
        story.deploy(Step.repair, REPAIRED_RELEASE, "yen have no cents")
        traffic.deploy(REPAIRED_RELEASE)
        self._phase = f"the shop is open, release {REPAIRED_RELEASE} is deployed"
        self._show_until(lambda: has_passed(1))
        traffic.close_shop()
        self._phase = "the shop is closed"
        self._show_until(work_is_done, waits.finish_s)
        self._tell()
        self._show_until(work_is_done, waits.finish_s)
        traffic.stop()
        self._phase = "waiting for the last messages"
        if not self._show_until(all_is_committed, waits.settle_s):
            lag = self._lag()
            raise DemoError(
                f"the job did not catch up within {waits.settle_s:.0f} s: Kafka still has "
                f"{'unread' if lag is None else lag} records for it. Start the demo again with the "
                f"same directory to continue; Spark's log is in {self._logs}."
            )

    def _tell(self) -> None:
        """Ask what died and what was there before, send it back, and follow it to the end."""
        story, tables = self._story, self._tables
        self._pause(Step.cause)
        self._view.close()
        if story.cause():
            self._pause(Step.before)
            story.before()
            self._pause(Step.redrive)
            redrive_id = story.redrive()
            if redrive_id is not None:
                self._phase = "sent back: waiting for the acknowledgements"
                self._show_until(lambda: story.is_settled(tables, redrive_id), self._waits.finish_s)
                self._view.close()
                story.outcome(tables, redrive_id)
        self._pause(Step.report)

    def _pause(self, step: Step) -> None:
        """Wait for Enter if the user asked for it; messages flow until the shop has closed."""
        if self._story.pauses_at(step):
            self._view.close()
            self._story.ask(step)
            self._show_until(enter_was_pressed)
            self._view.close()

    def _show_until(self, is_over: Callable[[], bool], timeout_s: float = math.inf) -> bool:
        """Process batches and show the state until a condition holds; False after the timeout."""
        job, observer = self._job, self._observer
        ends_s = time.monotonic() + timeout_s
        while time.monotonic() < ends_s:
            observer.arrived.wait(self._waits.look_s)
            self._traffic.raise_failure()
            if job.wait(0.01):
                raise DemoError(f"the job stopped unexpectedly; see {self._logs}")
            observer.process_batches(job)
            now_s = time.monotonic()
            self._view.show(self._state(now_s), now_s)
            if is_over():
                return True
        return False

    def _state(self, now_s: float) -> ScreenState:
        observer = self._observer
        first_s = observer.first_batch_s
        return ScreenState(
            elapsed_s=None if first_s is None else now_s - first_s,
            total_s=self._seconds,
            phase=self._phase if self._traffic.opened.is_set() else "starting",
            batches=observer.batches,
            batch_s=observer.batch_s,
            lag_records=self._lag(),
            traffic=self._traffic.counters.snapshot(),
            depths=observer.depths.by_queue(),
            deaths=observer.depths.deaths,
            died_in=observer.depths.died_in,
            gate_open=self._job.gate_state.open,
            failed_at=observer.failed_at,
            console_link=self._console_link,
        )

    def _lag(self) -> int | None:
        """Records that the job has not committed; None if Kafka is away."""
        return self._observer.lag_records(self._job)
