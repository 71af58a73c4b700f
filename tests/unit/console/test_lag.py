"""The first page says how many records wait in Kafka, as far as Kafka has told."""

import threading

import pytest

from streaming.console import asking, lag
from streaming.console.lag import Lag, LagWatch
from tests.fixtures.waiting import wait_until

READ = {("publishes", 0): 5, ("publishes", 1): 7, ("commands", 0): 3}


@pytest.fixture
def config(tmp_path):
    """The configuration of a job whose Kafka does not answer."""
    file = tmp_path / "dlx.toml"
    file.write_text('[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\n')
    return file


def test_the_lag_is_what_the_last_batch_has_not_read(config):
    ends = {("publishes", 0): 9, ("publishes", 1): 7, ("commands", 0): 2}
    watch = LagWatch(lambda _config, partitions: {one: ends[one] for one in partitions})

    wait_until(lambda: watch.of(config, READ) is not None)

    assert watch.of(config, READ) == Lag(4, [("publishes", 0, 4)])


def test_after_a_failure_no_page_waits_until_kafka_answers_again(config, monkeypatch):
    monkeypatch.setattr(asking, "FRESH_S", 0.0)
    monkeypatch.setattr(lag, "NEEDED_S", 3_600.0)
    answers = threading.Event()

    def ask(_config, partitions):
        if not answers.is_set():
            raise OSError
        return dict.fromkeys(partitions, 9)

    watch = LagWatch(ask)
    for _page in range(2):
        assert watch.of(config, READ, is_needed=True) is None

    answers.set()
    wait_until(lambda: watch.of(config, READ, is_needed=True) is not None)


def test_without_an_answer_nothing_is_known(config, monkeypatch):
    monkeypatch.setattr(lag, "TIMEOUT_S", 0.1)

    assert LagWatch().of(config, READ) is None
    assert LagWatch().of(config, {}) is None
