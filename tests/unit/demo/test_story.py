"""The demo's story: its words and its commands, on tables of a broker in memory."""

import io
import os
import re
import shlex
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from streaming.cli.main import main
from streaming.config import show_config
from streaming.demo import story as story_module
from streaming.demo.order_process import INVOICES, order
from streaming.demo.show import job_config
from streaming.demo.steps import Step
from streaming.demo.story import Story
from tests.builders import START_MS
from tests.unit.demo.staging import send, staged
from tests.unit.queries.recording import Recording

DEPLOYED_MS = 10_000
REPAIRED_MS = 20_000
NUMBERS = (0, 5, 3, 7, 8)
"""The orders; 2 and 8 are in yen."""


def instant(after_ms):
    return datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(milliseconds=after_ms)


@pytest.fixture
def approved():
    """The arguments of each approval, which needs a running job."""
    return []


@pytest.fixture
def dlx(monkeypatch, capsys, approved):
    """Runs a command in this process, but no approval."""

    def run(arguments, config, width):
        if arguments[:2] == ("redrives", "approve") or arguments[0] == "deployed":
            approved.append(arguments)
            return "moved 2\n"
        monkeypatch.setenv("DLX_CONFIG", str(config))
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr(sys, "argv", ["dlx", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        assert (ended.value.code, captured.err) == (0, "")
        return captured.out

    return run


@pytest.fixture
def told(tmp_path, monkeypatch, dlx):
    """A story on tables in which two orders in yen died between both releases."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    broker = staged(clock="event")
    recording = Recording(tmp_path / "tables", broker)
    recording.commit()
    broker.at(DEPLOYED_MS + 1_000)
    for number in NUMBERS:
        send(broker, order(number))
    broker.get(INVOICES, "g", count=len(NUMBERS))
    broker.reject("g/1", "g/4")
    recording.commit()
    broker.at(REPAIRED_MS + 1_000)
    broker.ack("g/0", "g/2", "g/3")
    recording.commit()
    recording.close()
    config = tmp_path / "dlx.toml"
    config.write_text(show_config(job_config(tmp_path, "127.0.0.1:1")))
    out = io.StringIO()
    story = Story(config, Console(file=out, width=100), frozenset({Step.redrive}), dlx)
    story.mark(Step.deploy, instant(DEPLOYED_MS))
    story.mark(Step.repair, instant(REPAIRED_MS))
    return story, out


def test_the_cause_is_the_currency_of_what_died_since_the_deploy(told):
    story, out = told

    assert story.cause() == 2

    said = out.getvalue()
    assert re.search(r"invoices +rejected +JPY +2 ", said)
    assert "All 2 were orders in JPY" in said


def test_the_queue_of_the_past_is_empty_at_the_deploy_and_not_at_the_repair(told):
    story, out = told

    story.before()

    said = out.getvalue()
    assert re.findall(r"When release (\S+) came, at \S+Z: (\d+)", said) == [
        ("2.0", "0"),
        ("2.1", "2"),
    ]
    assert '"order":8' in said


def test_a_story_in_which_nothing_died_says_so(told):
    story, out = told
    story.mark(Step.deploy, instant(REPAIRED_MS))

    assert story.cause() == 0
    assert "None died" in out.getvalue()


def test_the_redrive_approves_the_sealed_letters(told, approved):
    story, out = told
    redrive_id = story.redrive()

    [[_redrives, _approve, plan, *options]] = approved
    assert plan == redrive_id
    assert options[-2:] == ["--count", "2"]
    assert f"plan {plan}: 2 letters" in out.getvalue()


def test_the_demo_of_a_cluster_continues_in_a_cluster(told):
    story, _out = told

    lines = list(story.next_lines(Path("dlx"), in_cluster=True))

    assert [line.split()[:3] for line in lines if "dlx demo" in line] == [
        ["dlx", "demo", "--cluster"]
    ] * 2


def test_the_story_pauses_where_it_is_told_to(told):
    story, _out = told

    assert [step for step in Step if story.pauses_at(step)] == [Step.redrive]


def test_enter_ends_a_pause_and_so_does_the_end_of_the_input(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        seen = [story_module.enter_was_pressed()]
        os.write(writing, b"x")
        seen.append(story_module.enter_was_pressed())
        os.write(writing, b"\n")
        seen.append(story_module.enter_was_pressed())
        os.close(writing)
        seen.append(story_module.enter_was_pressed())

    assert seen == [False, False, True, True]


def test_what_to_try_next_runs_on_the_tables(told, dlx):
    story, _out = told

    reading = [
        line
        for line in story.next_lines(Path("dlx"))
        if not line.startswith(("dlx demo", "dlx console", "dlx why"))  # no order 17 was sent
    ]

    assert len(reading) == 3
    for line in reading:
        assert dlx(shlex.split(line)[1:], "", 80)


def test_a_release_is_noted_for_whoever_asks_what_broke(told, approved):
    story, _out = told

    story.deploy(Step.deploy, "2.0", "cents")

    worker = ("deployed", "invoices-worker", "2.0", "--vhost", "shop", "--queue", INVOICES)
    assert approved == [(*worker, "--reason", "cents", "--timeout", "60")]
