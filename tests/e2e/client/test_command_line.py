"""The commands for a running job, each as a process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INVALID, EXIT_OK, EXIT_UNROUTED
from streaming.config import show_config
from tests.fixtures.waiting import wait_until

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
                *("--config", str(config)),
                *(() if command.endswith(("list", "why")) else PATIENCE),
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


def test_a_message_that_no_queue_took_is_confirmed_not_routed(dlx, channel, name):
    queue, exchange = name("work"), name("orders")
    channel.declare_queue(queue)
    channel.declare_exchange(exchange, "topic")
    channel.bind_queue(queue, exchange, "order.#")

    misspelt = dlx("publish", "x", "--routing-key", f"{queue}s")
    unbound = dlx("publish", "x", "--exchange", exchange, "--routing-key", "parcel")
    routed = dlx("publish", "x", "--exchange", exchange, "--routing-key", "order.eu")
    some = dlx("publish", "--lines", "--routing-key", name("none"), text="1\n2\n")

    assert misspelt[:2] == (EXIT_UNROUTED, "1 confirmed, not routed\n")
    assert f"(did you mean {queue!r}?)" in misspelt[2]
    assert unbound[:2] == (EXIT_UNROUTED, "1 confirmed, not routed\n")
    assert "dlx bindings declare" in unbound[2]
    assert routed == (EXIT_OK, "1 confirmed\n", "")
    assert some[:2] == (EXIT_UNROUTED, "2 confirmed, not routed\n")
    assert channel.queue_depth(queue) == 1


def test_consume_without_a_command_acks_only_what_it_is_told_to(dlx, channel, name):
    queue = name("work")
    channel.declare_queue(queue)
    bodies = [str(number) for number in range(15)]  # more than the prefetch of a consumer that acks
    dlx("publish", "--routing-key", queue, "--lines", text="\n".join(bodies))

    status, printed, err = dlx("consume", queue, "--count", "15")
    kept = channel.queue_depth(queue)
    acked = dlx("consume", queue, "--count", "15", "--ack")

    assert (status, printed.split()) == (EXIT_OK, bodies)
    assert "--ack" in err
    assert kept == 15
    assert (acked[0], acked[1].split(), acked[2]) == (EXIT_OK, bodies, "15 acked, 0 rejected\n")
    assert channel.queue_depth(queue) == 0


def test_a_dead_letter_is_got_by_its_id_from_the_middle_of_its_queue(dlx, channel, name):
    work, dead = name("work"), name("dead")
    channel.declare_queue(dead)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.declare_queue(work, arguments=arguments)
    dlx("publish", "--routing-key", work, "--lines", text="one\ntwo\nthree\n")
    dlx("consume", work, "--count", "3", "--", "false")
    _, listed, _ = dlx("dead-letters list", "--queue", work, "--json")
    identity = [json.loads(line)["message_id"] for line in listed.splitlines()][1]

    status, got, _ = dlx("dead-letters get", identity, "--channel", dead, "--json")
    [delivery] = [json.loads(line) for line in got.splitlines()]
    unacked = dlx("dead-letters get", identity)
    returned = dlx("reject", delivery["delivery_id"], "--channel", dead, "--requeue")
    again = dlx("get", dead, "--message", identity, "--auto-ack", "--json")
    gone = dlx("dead-letters get", identity)
    missing = dlx("get", dead, "--message", identity)

    assert (status, delivery["body"], delivery["queue"]) == (EXIT_OK, "two", dead)
    assert unacked[0] == EXIT_INVALID
    assert f"message {identity} is unacked in queue {dead!r}" in unacked[2]
    assert returned[0] == again[0] == EXIT_OK
    assert json.loads(again[1])["body"] == "two"
    assert gone[0] == EXIT_INVALID
    assert "no queue has" in gone[2]
    assert missing[0] == EXIT_FINDINGS
    assert [delivery.body for delivery in channel.get_many(dead, 5)] == [b"one", b"three"]


def test_queues_and_exchanges_are_declared_bound_unbound_and_deleted(dlx, channel, name):
    queue, exchange, inner = name("work"), name("orders"), name("inner")

    done = [
        dlx("exchanges declare", exchange, "--type", "topic"),
        dlx("exchanges declare", inner, "-a", "alternate-exchange=amq.fanout"),
        dlx("queues declare", queue, "-a", "x-message-ttl=3600000", "-a", "x-overflow=drop-head"),
        dlx(
            "bindings",
            "declare",
            exchange,
            inner,
            "-k",
            "order.#",
            "--destination-type",
            "exchange",
        ),
        dlx("bindings", "declare", inner, queue, "-k", "order.eu"),
        dlx("bindings", "declare", "amq.headers", queue, "-a", "x-match=all", "-a", "n=1"),
        dlx("publish", "1", "-e", exchange, "-k", "order.eu"),
    ]
    exported = json.loads(dlx("definitions export")[1])
    [declared] = [each for each in exported["queues"] if each["name"] == queue]
    wrong = dlx("bindings", "delete", inner, queue, "-k", "order.us")
    removed = [
        dlx("bindings", "delete", inner, queue, "-k", "order.eu"),
        dlx("bindings", "delete", "amq.headers", queue, "-a", "x-match=all", "-a", "n=1"),
        dlx("exchanges delete", inner),
        dlx("exchanges delete", exchange, "--if-unused"),
    ]
    kept = dlx("queues delete", queue, "--if-empty")
    deleted = dlx("queues delete", queue)

    assert [each[0] for each in done] == [EXIT_OK] * len(done)
    assert declared["arguments"] == {"x-message-ttl": 3_600_000, "x-overflow": "drop-head"}
    assert wrong[0] == EXIT_INVALID
    assert "'order.eu'" in wrong[2]
    assert [each[0] for each in removed] == [EXIT_OK] * len(removed)
    assert kept[0] == EXIT_INVALID
    assert "dlx queues purge" in kept[2]
    assert deleted[0] == EXIT_OK
    assert "1 ready" in deleted[1]


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
    tried = dlx("definitions import", "--dry-run", str(file))
    imported = dlx("definitions import", str(file))
    after = dlx("definitions plan", str(file))
    document["queues"][0]["arguments"] = {"x-max-length": 6}
    document["policies"][0]["priority"] = 7
    file.write_text(json.dumps(document))
    conflict = dlx("definitions plan", str(file))
    refused = dlx("definitions import", str(file))
    exported = json.loads(dlx("definitions export")[1])

    assert before[0] == 0
    assert [line for line in before[1].splitlines() if not line.startswith("- ")] == [
        f"+ / policy '{other}'",
        f"+ / exchange '{exchange}'",
        f"= / queue '{queue}'",
        f"+ / queue '{other}'",
        f"+ / binding '{exchange}' -> queue '{queue}' with 'a.#'",
    ]
    assert "skipped: vhost 'elsewhere' is not one of the job's" in before[2]
    assert tried == before
    assert imported[0] == 0
    assert "vhost '/': 5 objects imported\n" in imported[1]
    assert {line[0] for line in after[1].splitlines()} <= {"=", "-"}
    assert conflict[0] == 1
    assert f"~ / policy '{other}': priority 0 -> 7\n" in conflict[1]
    assert f"! / queue '{queue}': PRECONDITION_FAILED - inequivalent arg" in conflict[1]
    assert refused[0] == 2
    assert "\n406 PRECONDITION_FAILED - inequivalent arg 'x-max-length'" in refused[2]
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


def test_a_deployment_is_named_by_why_after_the_next_death(dlx, channel, publisher, name):
    queue = name("work")
    channel.declare_queue(queue)
    worker = ("--queue", queue, "--reason", "faster")

    noted = dlx("deployed", "payments-worker", "2.4.1", *worker)
    wrong = dlx("deployed", "payments-worker", "2.4.2", "--queue", f"{queue}s")
    blank = dlx("deployed", "payments-worker", " ")
    publisher.publish("", queue, b"order", {"message_id": queue}).result(120)
    channel.get(queue).reject(requeue=False)
    channel.sync()

    said = f"payments-worker 2.4.1 is noted as deployed for {queue!r} in vhost '/'\n"
    assert noted == (EXIT_OK, said, "")
    assert wrong[0] == EXIT_INVALID
    assert f"(did you mean {queue!r}?)" in wrong[2]
    assert blank[0] == EXIT_INVALID
    assert "VERSION: must be text that can be read" in blank[2]
    before = "before it: deployed 'payments-worker 2.4.1' by guest"
    wait_until(lambda: before in dlx("why", queue)[1])
