"""The commands for a running job, each as a process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streaming.config import show_config

CHECKOUT = Path(__file__).resolve().parents[3]
PATIENCE = ("--timeout", "120")


@pytest.fixture
def dlx(running_job):
    """A function that runs a command; returns status, stdout and stderr."""
    config = running_job.root / "dlx.toml"
    config.write_text(show_config(running_job.config))

    def run(*arguments: str, text: str = "") -> tuple[int, str, str]:
        command, _, rest = " ".join(arguments[:1]), None, arguments[1:]
        before_dashes = rest[: rest.index("--")] if "--" in rest else rest
        after_dashes = rest[len(before_dashes) :]
        finished = subprocess.run(
            [
                *(sys.executable, "-P", "-m", "streaming.cli", *command.split()),
                *before_dashes,
                *("--config", str(config), *PATIENCE),
                *after_dashes,
            ],
            cwd=CHECKOUT,
            env=os.environ | {"NO_COLOR": "1"},
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        return finished.returncode, finished.stdout, finished.stderr

    return run


def test_what_one_process_got_another_acks(dlx, channel, name):
    queue = name("work")
    channel.declare_queue(queue)

    published = dlx("publish", "--routing-key", queue, "--lines", text="one\ntwo\nthree\n")
    _, got, _ = dlx("get", queue, "--count", "2", "--channel", queue, "--json")
    one, two = [json.loads(line) for line in got.splitlines()]
    acked = dlx("ack", one["delivery_id"], "--channel", queue)
    again = dlx("ack", one["delivery_id"], "--channel", queue)
    requeued = dlx("reject", two["delivery_id"], "--channel", queue, "--requeue")
    purged = dlx("queues purge", queue)
    empty = dlx("get", queue)

    assert published == (0, "3 confirmed\n", "")
    assert [one["body"], two["body"]] == ["one", "two"]
    assert acked == (0, "1 settled\n", "")
    assert again[0] == 1
    assert "no longer unacked" in again[2]
    assert requeued == (0, "1 settled\n", "")
    assert purged == (0, f"2 messages purged from queue {queue!r}\n", "")
    assert empty == (1, "", f"queue {queue!r} is empty\n")


def test_consume_pipes_bodies_to_a_command_whose_status_settles(dlx, channel, name):
    queue, dead = name("work"), name("dead")
    channel.declare_queue(dead)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.declare_queue(queue, arguments=arguments)
    dlx("publish", "--routing-key", queue, "--lines", text="good\nbad\n")
    script = 'test "$(cat)" = good && test "$DLX_QUEUE" = ' + queue

    status, _, err = dlx("consume", queue, "--count", "2", "--", "sh", "-c", script)

    assert (status, err) == (1, "1 acked, 1 rejected\n")
    assert channel.get(dead).body == b"bad"
    assert channel.queue_depth(queue) == 0


@pytest.mark.parametrize("signal", ["INT", "TERM"])
def test_what_consume_was_at_when_it_was_interrupted_goes_back_and_is_not_counted(
    dlx, channel, name, signal
):
    queue = name("work")
    channel.declare_queue(queue)
    dlx("publish", "--routing-key", queue, "--lines", text="quick\nslow\n")
    script = 'if test "$(cat)" = slow; then kill -' + signal + " $PPID; exec sleep 60; fi"

    status, _, err = dlx("consume", queue, "--", "sh", "-c", script)

    assert (status, err) == (0, "1 acked, 0 rejected\n")
    back = channel.get(queue)
    assert (back.body, back.redelivered) == (b"slow", True)


def test_a_routing_key_with_nul_is_replaced_in_the_environment(dlx, channel, publisher, name):
    queue = name("nul")
    channel.declare_queue(queue)
    channel.bind_queue(queue, "amq.topic", f"{queue}.#")
    publisher.publish("amq.topic", f"{queue}.\0", b"x").result(120)
    script = f'test "$DLX_ROUTING_KEY" = "{queue}.\ufffd"'

    status, _, err = dlx("consume", queue, "--count", "1", "--", "sh", "-c", script)

    assert (status, err) == (0, "1 acked, 0 rejected\n")


def test_a_returned_message_is_an_error(dlx):
    status, out, err = dlx("publish", "x", "--routing-key", "nowhere", "--mandatory")

    assert (status, out) == (1, "0 confirmed\n")
    assert err.startswith("312 NO_ROUTE")


def test_a_refused_get_keeps_the_unacked_deliveries_of_the_channel(dlx, channel, name):
    """An error closes its channel and requeues what is unacked there: not the one of `dlx get`."""
    queue = name("work")
    channel.declare_queue(queue)
    dlx("publish", "one", "--routing-key", queue)
    _, got, _ = dlx("get", queue, "--channel", queue, "--json")

    missing = dlx("get", name("nosuch"), "--channel", queue)
    acked = dlx("ack", json.loads(got)["delivery_id"], "--channel", queue)

    assert missing[0] == 2
    assert "404 NOT_FOUND" in missing[2]
    assert acked == (0, "1 settled\n", "")


def test_definitions_are_planned_imported_and_exported(dlx, channel, running_job, name):
    queue, other, exchange = name("q"), name("other"), name("x")
    channel.declare_queue(queue, arguments={"x-max-length": 5})
    document: dict[str, Any] = {
        "rabbit_version": "3.13.0",
        "vhosts": [{"name": "/"}, {"name": "elsewhere"}],
        "queues": [
            {"name": queue, "vhost": "/", "durable": True, "arguments": {"x-max-length": 5}},
            {"name": other, "vhost": "/", "durable": True, "arguments": {}},
            {"name": "not-ours", "vhost": "elsewhere", "durable": True, "arguments": {}},
        ],
        "exchanges": [{"name": exchange, "vhost": "/", "type": "topic", "durable": True}],
        "bindings": [
            {
                "source": exchange,
                "vhost": "/",
                "destination": queue,
                "destination_type": "queue",
                "routing_key": "a.#",
                "arguments": {},
            }
        ],
        "policies": [
            {"name": other, "vhost": "/", "pattern": other, "definition": {"max-length": 3}}
        ],
    }
    file = running_job.root / "new.json"
    file.write_text(json.dumps(document))

    before = dlx("definitions plan", str(file))
    imported = dlx("definitions import", str(file))
    after = dlx("definitions plan", str(file))
    document["queues"][0]["arguments"] = {"x-max-length": 6}
    document["policies"][0]["priority"] = 7
    file.write_text(json.dumps(document))
    conflict = dlx("definitions plan", str(file))
    refused = dlx("definitions import", str(file))
    exported = json.loads(dlx("definitions export")[1])

    assert before[:2] == (
        0,
        f"skipped: vhost 'elsewhere' is not one of the job's ({running_job.root / 'dlx.toml'})\n"
        f"+ / policy '{other}'\n"
        f"+ / exchange '{exchange}'\n"
        f"= / queue '{queue}'\n"
        f"+ / queue '{other}'\n"
        f"+ / binding '{exchange}' -> queue '{queue}' with 'a.#'\n",
    )
    assert imported[0] == 0
    assert "vhost '/': 5 objects imported\n" in imported[1]
    assert {line[0] for line in after[1].splitlines()[1:]} == {"="}
    assert conflict[0] == 1
    assert f"~ / policy '{other}': priority 0 -> 7\n" in conflict[1]
    assert f"! / queue '{queue}': PRECONDITION_FAILED - inequivalent arg" in conflict[1]
    assert refused[0] == 2
    assert refused[2].startswith("406 PRECONDITION_FAILED - inequivalent arg 'x-max-length'")
    assert queue in {each["name"] for each in exported["queues"]}
    assert {each["name"]: each["type"] for each in exported["exchanges"]}[exchange] == "topic"


def test_policies_are_set_and_cleared(dlx, channel, publisher, name):
    queue = name("work")
    channel.declare_queue(queue)

    done = dlx("policies set", queue, queue, '{"max-length": 1}', "--apply-to", "queues")
    for body in (b"1", b"2"):
        publisher.publish("", queue, body).result(120)
    limited = channel.queue_depth(queue)
    cleared = dlx("policies clear", queue)
    publisher.publish("", queue, b"3").result(120)

    assert done == (0, f"policy {queue!r} is set in vhost '/'\n", "")
    assert cleared == (0, f"policy {queue!r} is removed from vhost '/'\n", "")
    assert (limited, channel.queue_depth(queue)) == (1, 2)
