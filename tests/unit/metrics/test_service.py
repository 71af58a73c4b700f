"""What the metrics of a job ask its tables."""

import threading
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from streaming.config import JobConfig
from streaming.metrics import service
from streaming.metrics.figures import Unhandled
from streaming.metrics.service import Metrics, unhandled_letters
from streaming.storage.location import Location
from tests.builders import START_MS
from tests.unit.queries.redrives.letters import Shop


@pytest.fixture
def shop(tmp_path):
    """A queue with two letters; those of another are back where they first died."""
    shop = Shop(tmp_path / "tables", letters=2)
    broker = shop.broker
    broker.queue("tried", dead_letter_exchange="", dead_letter_routing_key="retry")
    broker.queue("retry", dead_letter_exchange="", dead_letter_routing_key="tried", message_ttl=100)
    broker.publish("", "tried", "order")
    shop.kill("tried", 1)
    broker.at(1_000)
    return shop


def test_letters_wait_until_they_are_redriven(shop):
    before = shop.ask(unhandled_letters)
    shop.approve(shop.plan())

    assert before == {("/", "dead"): Unhandled(2, START_MS / 1000)}
    assert shop.ask(unhandled_letters) == {}


def test_a_stop_ends_a_question_that_takes_long(tmp_path, monkeypatch):
    """Else the process ends while DuckDB works, which complains on the terminal."""
    config = JobConfig()
    job = attrs.evolve(config.job, checkpoint_location=str(tmp_path / "checkpoint"))
    metrics = Metrics(attrs.evolve(config, job=job), None)
    asks = threading.Event()

    def ask(tables: Any) -> Any:
        asks.set()
        tables.values("SELECT count(*) FROM range(1000000000) a, range(1000) b")

    monkeypatch.setattr(service, "describe", ask)
    marks = SimpleNamespace(process_high_bytes=1, high_bytes=1)
    running: Any = SimpleNamespace(
        tables=Location(str(tmp_path)), marks=marks, is_batch_running=lambda: False
    )
    metrics.figures.last_batch = SimpleNamespace()  # type: ignore[assignment]
    metrics.started(running)
    assert asks.wait(60)

    metrics.stop()

    names = {thread.name for thread in threading.enumerate()}
    assert "metrics-tables" not in names
