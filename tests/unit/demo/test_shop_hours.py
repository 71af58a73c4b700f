"""The hours of the demo's shop, with stand-ins for the job and the traffic."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from streaming.client.address import Address
from streaming.demo.errors import DemoError
from streaming.demo.job_observer import CopyEvent, JobObserver
from streaming.demo.screen import Screen
from streaming.demo.shop_hours import ShopHours, Waits
from streaming.demo.story import MIN_POISONED
from streaming.demo.traffic import TrafficCounters
from streaming.pipeline.reports import BatchDone
from streaming.storage.location import Location

LATER_MS = 10**15
ADDRESS = Address(bootstrap="127.0.0.1:1")
WAITS = Waits(look_s=0.01, quiet_s=0.0)


class Story:
    """A story without commands: nothing died."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def deploy(self, step, _release, _reason):
        self.steps.append(step)

    def pauses_at(self, step):
        return False

    def cause(self):
        self.steps.append("cause")
        return 0


class Observer(JobObserver):
    """An observer who knows without Kafka how many records wait."""

    lag: int | None = 0

    def lag_records(self, _job: Any) -> int | None:
        return self.lag


class Stage:
    """A demo without Kafka and Spark: one batch is committed, and there is no lag."""

    def __init__(self):
        self.story: Any = Story()
        self.out = io.StringIO()
        self.console = Console(file=self.out, width=400)
        self.observer = Observer(ADDRESS)
        self.observer.batch_done(BatchDone(0, 0, [], 0, 0, {"stages": 0.1, "commit": 0.1}))
        self.observer.next_deadline_ms = LATER_MS
        self.calls: list[str] = []
        self.traffic: Any = SimpleNamespace(
            opened=SimpleNamespace(is_set=lambda: True),
            counters=TrafficCounters(),
            raise_failure=lambda: None,
            start=lambda: self.calls.append(f"opened after {self.observer.batches} batch"),
            close_shop=lambda: self.calls.append("close_shop"),
            stop=lambda: self.calls.append("stop"),
            deploy=self.calls.append,
        )
        for count in ("invoices acked", "invoices rejected"):
            self.traffic.counters.add(count)
        self.observer.depths.died_in["invoices"] = MIN_POISONED
        self.job: Any = SimpleNamespace(
            wait=lambda _seconds: False, gate_state=SimpleNamespace(open=True)
        )

    def play(self, waits=WAITS):
        beside = (self.job, self.traffic, self.observer, Screen(self.console), self.story)
        ShopHours(*beside, Location("tables"), Path("logs"), 0.05, waits=waits).play()


@pytest.fixture
def stage():
    opened = Stage()
    yield opened
    opened.observer.close()


def test_the_demo_ends_when_its_work_is_done_and_committed(stage):
    stage.play()

    assert stage.calls == ["opened after 1 batch", "2.0", "2.1", "close_shop", "stop"]
    assert stage.story.steps == ["deploy", "repair", "cause"]
    assert "the shop is open: " in stage.out.getvalue()


def test_consumers_get_time_to_finish_their_work(stage):
    stage.observer.depths.apply([CopyEvent("enqueued", "payments", 1)])

    stage.play(WAITS._replace(finish_s=0.05))

    assert stage.calls == ["opened after 1 batch", "2.0", "2.1", "close_shop", "stop"]


@pytest.mark.parametrize("lag", [7, None])
def test_a_job_that_does_not_catch_up_is_reported(stage, lag):
    stage.observer.lag = lag

    with pytest.raises(DemoError, match="did not catch up"):
        stage.play(WAITS._replace(finish_s=0.05, settle_s=0.05))


def test_a_job_that_stops_by_itself_ends_the_demo(stage):
    stage.job.wait = lambda _seconds: True

    with pytest.raises(DemoError, match="stopped unexpectedly"):
        stage.play()


def test_a_failure_of_the_traffic_ends_the_demo(stage):
    def fail():
        raise DemoError("the broker refused it")

    stage.traffic.raise_failure = fail

    with pytest.raises(DemoError, match="the broker refused it"):
        stage.play()
