"""The end of the demo, with stand-ins for the job and the traffic."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from streaming.client.address import Address
from streaming.config import JobConfig, show_config
from streaming.demo import show
from streaming.demo.errors import DemoError
from streaming.demo.job_observer import CopyEvent, JobObserver
from streaming.demo.screen import Screen
from streaming.demo.show import Running, Show, job_config, refuse_earlier
from streaming.demo.story import MIN_POISONED
from streaming.demo.traffic import TrafficCounters
from streaming.pipeline.reports import BatchDone

LATER_MS = 10**15
ADDRESS = Address(bootstrap="127.0.0.1:1")


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


class Stage:
    """A demo without Kafka and Spark: one batch is committed, and there is no lag."""

    def __init__(self, tmp_path, monkeypatch):
        monkeypatch.setattr(show, "LOOK_EVERY_S", 0.01)
        monkeypatch.setattr(show, "QUIET_S", 0.0)
        self.story = Story()
        monkeypatch.setattr(show, "Story", lambda *_arguments: self.story)
        self.out = io.StringIO()
        self.console = Console(file=self.out, width=400)
        self.show = Show(tmp_path, 0.05, keep=False, console=self.console, progress=self.console)
        self.observer = JobObserver(ADDRESS)
        self.observer.batch_done(BatchDone(0, 0, [], 0, 0, {"stages": 0.1, "commit": 0.1}))
        self.observer.next_deadline_ms = LATER_MS
        self.lag: int | None = 0
        monkeypatch.setattr(self.observer, "lag_records", lambda _job: self.lag)
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

    def play(self):
        self.show.play(Running(self.job, self.traffic, self.observer, Screen(self.console)))


@pytest.fixture
def stage(tmp_path, monkeypatch):
    opened = Stage(tmp_path, monkeypatch)
    yield opened
    opened.observer.close()


def test_the_demo_ends_when_its_work_is_done_and_committed(stage):
    stage.play()

    assert stage.calls == ["opened after 1 batch", "2.0", "2.1", "close_shop", "stop"]
    assert stage.story.steps == ["deploy", "repair", "cause"]
    assert "the shop is open: " in stage.out.getvalue()


def test_consumers_get_time_to_finish_their_work(stage, monkeypatch):
    monkeypatch.setattr(show, "FINISH_TIMEOUT_S", 0.05)
    stage.observer.depths.apply([CopyEvent("enqueued", "payments", 1)])

    stage.play()

    assert stage.calls == ["opened after 1 batch", "2.0", "2.1", "close_shop", "stop"]


@pytest.mark.parametrize("lag", [7, None])
def test_a_job_that_does_not_catch_up_is_reported(stage, monkeypatch, lag):
    monkeypatch.setattr(show, "FINISH_TIMEOUT_S", 0.05)
    monkeypatch.setattr(show, "SETTLE_TIMEOUT_S", 0.05)
    stage.lag = lag

    with pytest.raises(DemoError, match="did not catch up"):
        stage.play()


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


def test_all_files_of_the_job_are_below_the_directory(tmp_path):
    config = job_config(tmp_path, "127.0.0.1:1")

    assert config.job.checkpoint_location == str(tmp_path / "checkpoints")
    assert config.job.tables_location == str(tmp_path / "tables")
    assert config.kafka.bootstrap_servers == ("127.0.0.1:1",)


def test_the_shop_is_in_a_vhost_of_amqp_clients_beside_one_of_kafkas(tmp_path):
    config = job_config(tmp_path, "127.0.0.1:1")

    assert {name: vhost.sequenced for name, vhost in config.vhosts.items()} == {
        "/": False,
        "shop": True,
    }
    assert config.vhosts["shop"].definitions == str(tmp_path / "shop.json")


def test_the_directory_of_an_earlier_demo_is_refused_and_the_own_one_continued(tmp_path):
    file = tmp_path / "dlx.toml"
    refuse_earlier(tmp_path)
    file.write_text(show_config(job_config(tmp_path, "127.0.0.1:1")))
    refuse_earlier(tmp_path)
    file.write_text(show_config(JobConfig()))

    with pytest.raises(DemoError, match=f"dlx reset --config {file}"):
        refuse_earlier(tmp_path)
