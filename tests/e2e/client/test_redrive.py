"""A redrive on a running job, from the plan to the fate of each letter, with the command line."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streaming.client import AccessRefusedError, aio, processing, read_plan
from streaming.config import show_config
from streaming.metrics.redrive_spans import RedriveSpans
from streaming.queries import DeadLetterFilter, RedriveWish, open_tables
from streaming.queries.audit.balance import balance
from tests.fixtures.spans import TRACE, TRACEPARENT, exporter, hex_trace
from tests.fixtures.waiting import WAIT_S, wait_until

__all__ = ["exporter"]

LETTERS = 1_000
ACKED = 500


@pytest.fixture
def dlx(running_job: Any, tmp_path: Path) -> Callable[..., str]:
    """A function that runs a command as a process, and returns what it prints."""
    config = running_job.root / "dlx.toml"
    config.write_text(show_config(running_job.config))

    def run(*arguments: str) -> str:
        finished = subprocess.run(
            [sys.executable, "-P", "-m", "streaming.cli", *arguments, "--config", str(config)],
            env=os.environ | {"XDG_STATE_HOME": str(tmp_path), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    return run


def dead_letters(
    channel: Any, publisher: Any, work: str, dead: str, count: int, kafka_headers: Any = ()
) -> None:
    """Publish messages and let them all die."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.declare_queue(work, arguments=arguments)
    channel.declare_queue(dead)
    sent = [
        publisher.publish(
            "", work, b"%d" % number, headers={"n": number}, kafka_headers=kafka_headers
        )
        for number in range(count)
    ]
    for one in sent:
        one.result(60)
    for delivery in channel.get_many(work, count):
        delivery.reject(requeue=False)
    wait_until(
        lambda: channel.queue_depth(dead) == count,
        lambda: f"{count} letters in {dead}",
        pause_s=0.5,
    )


def committed(root: Path, work: str, count: int) -> None:
    """Wait until the tables have so many deaths."""

    def there() -> bool:
        with open_tables(str(root / "tables")) as queries:
            return bool(queries.dead_letters(DeadLetterFilter(queue=work)).count() == count)

    wait_until(there, lambda: f"{count} deaths of {work} in the tables", pause_s=0.5)


def test_a_sealed_plan_moves_what_is_left_of_it_and_lists_the_rest(
    dlx, channel, publisher, name, running_job
):
    work, dead = name("work"), name("dead")
    dead_letters(channel, publisher, work, dead, LETTERS)
    committed(running_job.root, work, LETTERS)

    plan = json.loads(dlx("dead-letters", "redrive", "--queue", work, "--json"))
    for delivery in channel.get_many(dead, ACKED):
        delivery.ack()
    wait_until(
        lambda: channel.queue_depth(dead) == LETTERS - ACKED, lambda: "the acks", pause_s=0.5
    )
    approve = ("redrives", "approve", plan["id"], "--reason", "fixed", "--count", str(LETTERS))
    first = dlx(*approve, "--rate", "400", "--follow", "--timeout", "60")
    again = dlx(*approve, "--timeout", "60")

    assert plan["letters"] == LETTERS
    assert first == again
    assert channel.queue_depth(work) == LETTERS - ACKED
    got = channel.get_many(work, LETTERS)
    assert [int(delivery.body) for delivery in got] == list(range(ACKED, LETTERS))
    headers = got[0].headers
    assert (headers["x-redrive-id"], headers["x-redrive-count"]) == (plan["id"], 1)
    for delivery in got[:10]:
        delivery.reject(requeue=False)
    for delivery in got[10:]:
        delivery.ack()

    def settled() -> bool:
        with open_tables(str(running_job.root / "tables")) as queries:
            return bool(queries.redrive(plan["id"]).redrive["waiting"] == 0)

    wait_until(settled, lambda: "the fate of every letter", pause_s=0.5)
    shown = json.loads(dlx("redrives", "show", plan["id"], "--json"))
    fates = Counter((letter["fate"], letter["reason"]) for letter in shown["letters"])
    assert fates == {
        ("skipped", "not_ready"): ACKED,
        ("died", "rejected"): 10,
        ("acked", None): LETTERS - ACKED - 10,
    }
    with open_tables(str(running_job.root / "tables")) as queries:
        assert balance(queries.tables).unexplained == 0


def test_edited_letters_are_new_versions_and_the_originals_stay(
    dlx, channel, publisher, name, running_job, tmp_path, monkeypatch
):
    work, dead = name("work"), name("dead")
    dead_letters(channel, publisher, work, dead, 3)
    committed(running_job.root, work, 3)
    script = "import pathlib, sys; file = pathlib.Path(sys.argv[1]); text = file.read_text(); "
    script += (
        "file.write_text(text.replace('\"n\": 0', '\"n\": 100').replace('---\\n0', '---\\nzero'))"
    )
    (tmp_path / "editor.py").write_text(script)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {tmp_path / 'editor.py'}")
    redrive = ("dead-letters", "redrive", "--queue", work, "--json")

    by_hand = json.loads(dlx(*redrive, "--header", "n=0", "--edit"))
    by_sql = json.loads(
        dlx(
            *(*redrive, "--where", "headers ->> 'n' <> '0'", "--set-header", "fixed=true"),
            *("--set-property", "content_type=text/plain", "--edit-body", "decode(body) || '!'"),
        )
    )
    for plan in (by_hand, by_sql):
        dlx("redrives", "approve", plan["id"], "--reason", "fixed", "--yes", "--timeout", "60")

    changes = ["-header n: 0", "-body: 0", "+header n: 100", "+body: zero"]
    assert by_hand["edits"][0]["diff"] == changes
    marks = ("x-redrive-id", "x-redrive-count", "x-death")
    found = {}
    for delivery in channel.get_many(work, 9):
        headers = {
            key: value
            for key, value in delivery.headers.items()
            if key not in marks and not key.startswith(("x-first-death", "x-last-death"))
        }
        found[bytes(delivery.body)] = (headers, delivery.properties.get("content_type"))
        delivery.ack()
    assert found == {
        b"zero": ({"n": 100}, None),
        b"1!": ({"n": 1, "fixed": True}, "text/plain"),
        b"2!": ({"n": 2, "fixed": True}, "text/plain"),
    }
    [edit] = by_hand["edits"]
    original = json.loads(dlx("dead-letters", "show", edit["message_id"], "--json"))
    assert original["message"]["body"] == "0"
    [moved] = [event for event in original["events"] if event["kind"] == "redriven"]
    assert moved["detail"]["edit"]["original"] == edit["original"]
    version = "/".join(map(str, moved["detail"]["edit"]["message"]))
    assert (
        json.loads(dlx("dead-letters", "show", version, "--json"))["version_of"]
        == edit["message_id"]
    )


def test_a_plan_made_in_python_needs_the_rights_of_its_user(channel, publisher, name, running_job):
    work, dead = name("work"), name("dead")
    dead_letters(channel, publisher, work, dead, 1)
    committed(running_job.root, work, 1)
    with open_tables(str(running_job.root / "tables")) as queries:
        plan = queries.plan_redrive(RedriveWish(wanted=DeadLetterFilter(queue=work))).sealed

    with running_job.connect("clerk") as connection, pytest.raises(AccessRefusedError):
        connection.channel().approve_redrive(plan, "mine")
    state = channel.approve_redrive(read_plan(plan.to_json(), "plan"), "ours")

    assert (state.status, state.moved) == ("finished", 1)
    assert channel.control_redrive(state.id, "status", "") == state


def test_a_redriven_letter_stays_in_the_trace_of_its_message(
    dlx, channel, publisher, name, running_job, exporter
):
    work, dead = name("work"), name("dead")
    traced = [("ce_id", b"1"), ("traceparent", TRACEPARENT)]
    dead_letters(channel, publisher, work, dead, 1, traced)
    committed(running_job.root, work, 1)
    spans = RedriveSpans(running_job.job.tables)
    running_job.on_batch.append(spans.batch_done)

    plan = json.loads(dlx("dead-letters", "redrive", "--queue", work, "--json"))
    dlx("redrives", "approve", plan["id"], "--reason", "fixed", "--count", "1", "--timeout", "60")
    asyncio.run(acknowledged(running_job, work))
    spans.stop()
    running_job.on_batch.clear()

    ended = [span for span in exporter.get_finished_spans() if hex_trace(span) == TRACE]
    on_work = ("receive", "reject", "receive", "process", "ack")
    names = [f"redrive {dead}", *(f"{what} {work}" for what in on_work)]
    assert sorted(span.name for span in ended) == sorted(names)
    assert {f"{link.context.trace_id:032x}" for span in ended for link in span.links} == {TRACE}
    by_name = {span.name: span for span in ended}
    ack, process = by_name[f"ack {work}"], by_name[f"process {work}"]
    assert ack.parent is not None
    assert ack.parent.span_id == process.get_span_context().span_id
    redrive = by_name[f"redrive {dead}"].attributes or {}
    assert redrive["dlx.redrive.id"] == plan["id"]
    assert redrive["dlx.redrive.targets"] == (work,)


async def acknowledged(running_job: Any, queue: str) -> None:
    """Acknowledge the first message of a queue with the client for asyncio."""
    connecting = aio.Connection(running_job.address(), timeout_s=WAIT_S)
    async with connecting as connection, connection.channel() as channel:
        async for delivery in channel.consume(queue):
            with processing(delivery):
                await delivery.ack()
            await channel.sync()
            break
