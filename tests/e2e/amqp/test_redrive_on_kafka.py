"""What feeds a sequenced vhost besides AMQP, on a real Kafka: redrives, commands, mapped topics.

All of it goes through the front into the log, each record once, whatever is killed meanwhile.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest
from kafka import KafkaProducer

from streaming.config.inputs import TopicMapping
from streaming.config.selectors import JsonValue
from streaming.queries.audit.balance import balance
from tests.bench.kafka_log import KafkaLog
from tests.fixtures.fronts import Fronts
from tests.fixtures.waiting import wait_until

WORK = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
LETTERS = 30
BULK = 4_300
"""More than a segment of the log: the front writes a digest, and the job compares it."""

MAPPING = TopicMapping(
    exchange="",
    routing_key=JsonValue(name="$.queue"),
    headers={"tenant": JsonValue(name="$.tenant")},
)
WAIT_S = 300.0


@pytest.fixture
def fed(tmp_path: Path, embedded_kafka) -> Iterator[Fronts]:
    """A vhost without a front, which a mapped topic feeds."""
    fronts = Fronts(tmp_path, embedded_kafka.bootstrap_servers, MAPPING)
    yield fronts
    fronts.end()


def commands_of(fronts: Fronts) -> Callable[..., Any]:
    """A function that runs a command as a process, and returns what it prints."""

    def run(*arguments: str) -> str:
        finished = subprocess.run(
            [sys.executable, "-P", "-m", "streaming.cli", *arguments, "--config", fronts.file],
            env=os.environ | {"XDG_STATE_HOME": str(fronts.root), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    return run


def rows(fronts: Fronts, query: str, *tables: str) -> list[tuple[Any, ...]]:
    """Ask the tables; nothing if they are not there yet."""
    with closing(fronts.tables()) as found:
        if not all(found.has(each) for each in tables):
            return []
        for each in tables:
            found.view(each)
        return list(found.values(query))


def deaths(fronts: Fronts) -> int:
    """How many letters have died, as the tables say."""
    found = rows(fronts, "SELECT count(*) FROM dead_letters", "dead_letters")
    return int(found[0][0]) if found else 0


def reject(channel: Any, queue: str, count: int) -> None:
    """Reject messages of a queue."""
    for _ in range(count):
        method, _properties, _body = channel.basic_get(queue)
        channel.basic_reject(method.delivery_tag, requeue=False)


def feed(fronts: Fronts, log: KafkaLog, numbers: range) -> None:
    """Write records to the mapped topic, and one that the mapping cannot use."""
    topic = f"{fronts.name}.mapped"
    for number in numbers:
        value = json.dumps({"queue": "fed", "tenant": "a", "n": number}).encode()
        log.send(topic, value, [("source", b"erp")])
    log.send(topic, b"{}", [])
    log.flush()


class RawName(str):
    """The name of a header, of which Kafka gets other bytes."""

    __slots__ = ()

    def encode(self, *_arguments: Any) -> bytes:
        return b"\xff" + super().encode()


def feed_unreadable(fronts: Fronts) -> None:
    """Write a record to the mapped topic that confluent_kafka cannot read."""
    producer = KafkaProducer(bootstrap_servers=fronts.servers)
    headers = [("source", b"erp"), (RawName("source"), b"erp")]
    value = json.dumps({"queue": "fed", "tenant": "a", "n": -1}).encode()
    producer.send(f"{fronts.name}.mapped", value, headers=headers).get(WAIT_S)
    producer.close()


def take(channel: Any, queue: str, count: int) -> list[tuple[bytes, Any]]:
    """Consume and ack messages."""
    taken: list[tuple[bytes, Any]] = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=60):
        assert method is not None, f"{len(taken)} messages, and then none for a minute"
        channel.basic_ack(method.delivery_tag)
        taken.append((body, properties))
        if len(taken) == count:
            break
    channel.cancel()
    return taken


@pytest.mark.long
def test_letters_are_redriven_although_the_front_is_killed_meanwhile(fed):
    dlx = commands_of(fed)
    log = KafkaLog(fed.servers)
    log.create(f"{fed.name}.mapped", 1, {})
    front = fed.start()
    channel = fed.connect(front).channel()
    channel.queue_declare("work", durable=True, arguments=WORK)
    channel.queue_declare("dead", durable=True)
    for number in range(BULK):
        channel.basic_publish("", "dead", b"%d" % number)
    channel.queue_purge("dead")
    properties = pika.BasicProperties(headers={"n": 1}, message_id="order-17")
    for number in range(LETTERS):
        channel.basic_publish("", "work", b"%d" % number, properties)
    reject(channel, "work", LETTERS)
    job = fed.start_job()
    wait_until(lambda: deaths(fed) == LETTERS or job.check(), job.log_end, WAIT_S, 1.0)
    dlx("queues", "declare", "fed", "--timeout", "120")

    plan = json.loads(dlx("dead-letters", "redrive", "--queue", "work", "--json"))
    approve = ("redrives", "approve", plan["id"], "--reason", "fixed", "--yes", "--rate", "5")
    dlx(*approve, "--no-follow", "--timeout", "120")
    feed_unreadable(fed)
    feed(fed, log, range(40))
    redriven_at = "SELECT coalesce(min(seq), 0), max(seq) FROM events WHERE kind = 'redriven'"
    wait_until(lambda: rows(fed, redriven_at, "events")[0][0], job.log_end, WAIT_S, 0.1)
    front.kill()
    feed(fed, log, range(40, 60))
    front = fed.start()
    channel = fed.connect(front).channel()
    redriven = take(channel, "work", LETTERS)
    again = dlx(*approve, "--no-follow", "--timeout", "120")

    assert plan["letters"] == LETTERS
    assert [body for body, _given in redriven] == [b"%d" % number for number in range(LETTERS)]
    given = redriven[0][1]
    assert (given.headers["x-redrive-id"], given.headers["x-redrive-count"]) == (plan["id"], 1)
    assert (given.headers["n"], given.message_id) == (1, "order-17")
    assert given.headers["x-death"][0]["reason"] == "rejected"
    assert f"{plan['id']} is finished: {LETTERS} of {LETTERS} letters moved" in again

    copied = take(channel, "fed", 60)
    assert [json.loads(body)["n"] for body, _given in copied] == list(range(60))
    assert copied[0][1].headers == {"source": "erp", "tenant": "a"}

    reject_again = [b"again%d" % number for number in range(20)]
    for body in reject_again:
        channel.basic_publish("", "work", body)
    reject(channel, "work", len(reject_again))
    total = LETTERS + len(reject_again)
    wait_until(lambda: deaths(fed) == total or job.check(), job.log_end, WAIT_S, 1.0)
    slow = json.loads(dlx("dead-letters", "redrive", "--queue", "work", "--json"))
    approved = ("redrives", "approve", slow["id"], "--reason", "r", "--yes", "--rate", "1")
    dlx(*approved, "--no-follow", "--timeout", "120")
    why = ("--reason", "why", "--timeout", "120")
    assert f"{slow['id']} is paused" in dlx("redrives", "pause", slow["id"], *why)
    assert f"{slow['id']} is running" in dlx("redrives", "resume", slow["id"], *why)
    assert f"{slow['id']} is cancelled" in dlx("redrives", "cancel", slow["id"], *why)
    discarded = json.loads(dlx("dead-letters", "discard", "--queue", "work", "--json"))
    drop = ("redrives", "approve", discarded["id"], "--reason", "r", "--yes", "--no-follow")
    dlx(*drop, "--timeout", "120")

    def fates() -> Counter[str]:
        outcome = json.loads(dlx("redrives", "show", plan["id"], "--json"))
        return Counter(letter["fate"] for letter in outcome["letters"])

    wait_until(lambda: fates() == {"acked": LETTERS}, job.log_end, WAIT_S, 1.0)
    wait_until(
        lambda: (
            rows(
                fed, "SELECT cause, count(*) FROM quarantine GROUP BY ALL ORDER BY 1", "quarantine"
            )
            == [("not_utf8", 1), ("unmapped", 2)]
        ),
        job.log_end,
        WAIT_S,
        1.0,
    )
    front.stop()
    job.stop()

    with closing(fed.tables()) as tables:
        assert balance(tables, whole=True).findings == []
    kinds = Counter(dict(rows(fed, "SELECT kind, count(*) FROM events GROUP BY ALL", "events")))
    [(first, last)] = rows(fed, redriven_at, "events")
    [(replaced,)] = rows(
        fed,
        "SELECT min(seq) FROM events WHERE kind = 'channel' AND detail LIKE '%\"epoch\"%'",
        "events",
    )
    assert first < replaced < last, "the front was killed between two letters"
    moved = kinds["redriven"] - LETTERS
    assert kinds["died"] == total
    assert 0 < moved < len(reject_again)
    assert kinds["discarded"] == len(reject_again) - moved
    assert kinds["command_error"] == kinds["void"] == 0


@pytest.mark.long
def test_letters_of_no_queue_and_edited_ones_get_new_messages_in_the_log(fronts):
    dlx = commands_of(fronts)
    front = fronts.start()
    channel = fronts.connect(front).channel()
    channel.queue_declare("work", durable=True, arguments=WORK)
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("alone", durable=True)
    properties = pika.BasicProperties(headers={"n": 1}, message_id="order-17", priority=3)
    for queue in ("work", "alone"):
        for number in range(5):
            channel.basic_publish("", queue, f"{queue} {number}".encode(), properties)
        reject(channel, queue, 5)
    job = fronts.start_job()
    wait_until(lambda: deaths(fronts) == 10 or job.check(), job.log_end, WAIT_S, 1.0)

    def moved(*plan: str, count: int = 5) -> str:
        """Plan and approve; return the id of the redrive when all letters have moved."""
        found = json.loads(dlx("dead-letters", *plan, "--json"))
        assert found["letters"] == count
        approve = ("redrives", "approve", found["id"], "--reason", "r", "--yes", "--no-follow")
        dlx(*approve, "--timeout", "120")
        state = f"SELECT count(*) FROM events WHERE detail LIKE '%{found['id']}%' AND kind IN "
        done = f"{state} ('redriven', 'republished', 'discarded')"
        wait_until(
            lambda: rows(fronts, done, "events") == [(count,)] or job.check(),
            lambda: job.log_end() + front.log_end(),
            WAIT_S,
            0.5,
        )
        return str(found["id"])

    moved("discard", "--queue", "work")
    front.kill()
    front = fronts.start()
    channel = fronts.connect(front).channel()
    moved("restore", "--queue", "work")
    edits = ("--set-header", "fixed=true", "--edit-body", "replace(decode(body), 'work', 'new')")
    edited = moved("redrive", "--queue", "work", *edits)
    gone = moved("redrive", "--queue", "alone", "--gone")
    again = take(channel, "work", 5)
    alone = take(channel, "alone", 5)

    assert [body for body, _given in again] == [f"new {number}".encode() for number in range(5)]
    given = again[0][1]
    assert (given.message_id, given.priority) == ("order-17", 3)
    assert (given.headers["n"], given.headers["fixed"]) == (1, True)
    assert given.headers["x-redrive-id"] == edited
    assert given.headers["x-death"][0]["queue"] == "work"
    assert [body for body, _given in alone] == [f"alone {number}".encode() for number in range(5)]
    assert (alone[0][1].headers["n"], alone[0][1].headers["x-redrive-id"]) == (1, gone)

    def fates(redrive: str) -> list[tuple[str, bool]]:
        outcome = json.loads(dlx("redrives", "show", redrive, "--json"))
        return [(letter["fate"], letter["version"] is not None) for letter in outcome["letters"]]

    wait_until(lambda: fates(edited) == [("acked", True)] * 5, job.log_end, WAIT_S, 1.0)
    wait_until(lambda: fates(gone) == [("acked", False)] * 5, job.log_end, WAIT_S, 1.0)
    front.stop()
    job.stop()

    with closing(fronts.tables()) as tables:
        assert balance(tables, whole=True).findings == []
    kinds = Counter(dict(rows(fronts, "SELECT kind, count(*) FROM events GROUP BY ALL", "events")))
    assert (kinds["edited"], kinds["republished"], kinds["redriven"]) == (15, 10, 5)
    assert kinds["command_error"] == kinds["publish_error"] == kinds["void"] == 0
