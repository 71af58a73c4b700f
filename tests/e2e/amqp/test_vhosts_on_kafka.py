"""Vhosts that are made and deleted while front and job run: fronts and the job take them up."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import httpx2
import pika
import pika.exceptions
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in its stubs
    AdminClient,
    NewTopic,
)

from streaming.console.fronts import KafkaFronts
from streaming.job_locations import checkpoint_place
from streaming.made_vhosts import MadeVhosts
from tests.bench.processes import Process
from tests.e2e.amqp.test_management_on_kafka import api_of, wait_for
from tests.e2e.amqp.test_rebuild_on_kafka import balanced, dlx
from tests.fixtures.fronts import Fronts
from tests.fixtures.waiting import wait_until

GUEST = ("guest", "guest")


def open_vhost(fronts: Fronts, front: Process, vhost: str) -> pika.BlockingConnection:
    """Connect to a vhost."""
    return pika.BlockingConnection(pika.URLParameters(f"{fronts.url(front)}/{vhost}?heartbeat=0"))


def publish(fronts: Fronts, front: Process, vhost: str, queue: str, *bodies: str) -> None:
    """Publish messages to a queue, with confirms."""
    with closing(open_vhost(fronts, front, vhost)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True)
        for body in bodies:
            channel.basic_publish("", queue, body.encode(), mandatory=True)


def got(fronts: Fronts, front: Process, vhost: str, queue: str) -> str:
    """The next message of a queue, which stays there."""
    with closing(open_vhost(fronts, front, vhost)) as connection:
        channel = connection.channel()
        body = channel.basic_get(queue)[2]
        assert isinstance(body, bytes)
        return body.decode()


def is_served(api: httpx2.Client, vhost: str) -> bool:
    """Whether a front serves a vhost."""
    return api.get(f"vhosts/{vhost}").status_code == 200


def made(fronts: Fronts) -> MadeVhosts:
    """The list of made vhosts."""
    return MadeVhosts(checkpoint_place(fronts.config, os.environ))


def waiting(fronts: Fronts) -> dict[str, int]:
    """The messages in queues, by vhost and queue, as the tables have them; nothing is missing."""
    found = balanced(fronts).items()
    return {f"{vhost} {queue}": ready for (vhost, queue), (ready, _) in found if ready}


@pytest.mark.timeout(900)  # Spark starts, on a machine that may be busy
def test_the_job_reads_the_logs_of_vhosts_that_are_made_while_it_runs(fronts):
    front, job = fronts.start("--management", "0"), fronts.start_job()
    with api_of(front) as api:
        api.auth = GUEST
        wait_for(api, GUEST)
        publish(fronts, front, "%2F", "work", "before")
        wait_until(lambda: has_batches(fronts, job), job.log_end, 600.0, 1.0)
        for name in ("orders", "bills"):
            assert api.put(f"vhosts/{name}").status_code == 201
            publish(fronts, front, name, "q", "one", "two")
        publish(fronts, front, "%2F", "work", "after")
        there = {"/ work": 2, "bills q": 2, "orders q": 2}
        wait_until(lambda: waits(fronts, job, there), job.log_end, 300.0, 1.0)

        assert api.delete("vhosts/orders").status_code == 204
        publish(fronts, front, "bills", "q", "three")
        there = {"/ work": 2, "bills q": 3}
        wait_until(lambda: waits(fronts, job, there), job.log_end, 300.0, 1.0)
        assert deleted(fronts) == [("orders", "q", "management guest")]

        job.kill()
        assert api.put("vhosts/orders").status_code == 201
        publish(fronts, front, "orders", "q", "four")
        assert api.put("vhosts/last").status_code == 201
        publish(fronts, front, "last", "q", "five")
        job = fronts.start_job()
        there |= {"orders q": 1, "last q": 1}
        wait_until(lambda: waits(fronts, job, there), job.log_end, 600.0, 1.0)
        job.stop()
    front.stop()

    verified = dlx(fronts, "amqp", "verify")
    assert all(f"vhost {name}:" in verified for name in ("/", "orders", "bills", "last"))
    plan = dlx(fronts, "checkpoint", "rebuild", "--dry-run")
    assert all(name in plan for name in ("orders", "bills", "last"))


def has_batches(fronts: Fronts, job: Process) -> bool:
    """Whether the job has committed something."""
    job.check()
    with closing(fronts.tables()) as tables:
        return tables.has("events")


def waits(fronts: Fronts, job: Process, there: dict[str, int]) -> bool:
    """Whether the tables have these messages in queues."""
    job.check()
    return waiting(fronts) == there


def deleted(fronts: Fronts) -> list[tuple[object, ...]]:
    """The queues that were deleted, and by whom."""
    with closing(fronts.tables()) as tables:
        tables.view("events")
        return tables.values(
            """
            SELECT vhost, detail ->> '$.name', channel
            FROM events WHERE kind = 'topology' AND detail ->> '$.what' = 'queue_deleted'
            """
        )


def test_a_vhost_outlives_its_front_and_is_made_again_as_a_new_one(fronts):
    front = fronts.start("--management", "0")
    with api_of(front) as api:
        api.auth = GUEST
        wait_for(api, GUEST)
        assert api.put("vhosts/orders", json={"description": "a"}).status_code == 201
        assert api.put("vhosts/orders", json={"description": "b"}).status_code == 204
        publish(fronts, front, "orders", "q", "one", "two")
        standby = fronts.start("--standby", "--management", "0")
        wait_until(lambda: f"{fronts.name}.log.orders" in standby.log_end(), standby.log_end)
    front.kill()

    with api_of(standby) as api:
        api.auth = GUEST
        for name in ("%2F", "orders"):
            wait_until(partial(is_served, api, name), standby.log_end)
        assert api.get("vhosts/orders").json()["description"] == "b"
        assert got(fronts, standby, "orders", "q") == "one"
        other = fronts.start("--standby")
        client = open_vhost(fronts, standby, "orders")
        client.channel()
        assert api.delete("vhosts/orders").status_code == 204
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="'orders' is deleted"):
            client.process_data_events(30)
        assert made(fronts).read() == {"orders": "deleted"}
        gone = api.get("vhosts/orders")
        assert gone.status_code == 404, gone.text
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="not found"):
            open_vhost(fronts, standby, "orders")

        assert api.put("vhosts/orders").status_code == 201
        assert api.get("vhosts/orders").json()["description"] == ""
        assert api.get("queues/orders").json() == []
        publish(fronts, standby, "orders", "new", "three")
        assert got(fronts, standby, "orders", "new") == "three"
    standby.kill()
    made(fronts).note("orders", "ending")  # as if it had ended in the middle of a deletion

    wait_until(lambda: made(fronts).read() == {"orders": "deleted"}, other.log_end)
    other.check()


def test_what_is_deleted_and_made_again_at_once_stays_where_it_was_asked_for(fronts):
    front = fronts.start("--management", "0")
    with api_of(front) as api:
        api.auth = GUEST
        wait_for(api, GUEST)  # a standby that is there before may lead the new log first
        standby = fronts.start("--standby")
        for number in range(12):
            assert api.put("vhosts/orders").status_code == 201, front.log_end()
            publish(fronts, front, "orders", "q", f"{number}")
            assert got(fronts, front, "orders", "q") == f"{number}"
            if number % 3 == 0:
                time.sleep(number / 4)  # the standby follows it by now
            assert api.delete("vhosts/orders").status_code == 204
        with ThreadPoolExecutor(4) as threads:
            asked = list(threads.map(lambda _: api.put("vhosts/bills").status_code, range(4)))
    assert sorted(asked) == [201, 204, 204, 204]
    assert KafkaFronts()(fronts.file).keys() == {"/", "bills"}
    assert "leads since" not in standby.log.read_text()
    front.check()
    standby.check()


def test_a_vhost_that_cannot_be_served_ends_no_front_and_a_later_start_serves_what_was_made(fronts):
    admin = AdminClient({"bootstrap.servers": fronts.servers})
    odd = f"{fronts.name}.log.odd"
    admin.create_topics([NewTopic(odd, 1, 1)])[odd].result()
    producer = Producer({"bootstrap.servers": fronts.servers})
    for _ in range(3):
        producer.produce(odd, b"of something else")
    producer.flush(30)
    for trimmed in admin.delete_records([TopicPartition(odd, 0, 2)]).values():
        trimmed.result()
    front = fronts.start("--management", "0")
    with api_of(front) as api:
        api.auth = GUEST
        wait_for(api, GUEST)
        long = api.put(f"vhosts/{'ü' * 60}")
        assert (long.status_code, "249" in long.json()["reason"]) == (400, True)
        refused = api.put("vhosts/odd")
        assert refused.status_code == 503
        assert "begins at offset 2" in refused.json()["reason"]
        assert api.delete("vhosts/%2F").status_code == 400
        assert api.put("vhosts/orders").status_code == 201
        publish(fronts, front, "orders", "q", "one")
    front.stop()

    one = fronts.start("--vhost", "orders", "--management", "0")
    with api_of(one) as api:
        api.auth = GUEST
        wait_until(lambda: api.get("vhosts/orders").status_code == 200, one.log_end)
        assert got(fronts, one, "orders", "q") == "one"
        assert api.delete("permissions/orders/guest").status_code == 204
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="refused for user"):
            open_vhost(fronts, one, "orders")
        all_of_it = dict.fromkeys(("configure", "write", "read"), ".*")
        assert api.put("permissions/orders/guest", json=all_of_it).status_code == 201
        alone = api.put("vhosts/more")
        assert (alone.status_code, "--vhost" in alone.json()["reason"]) == (400, True)
    one.stop()

    whole = fronts.start("--management", "0")
    with api_of(whole) as api:
        api.auth = GUEST
        wait_until(lambda: api.get("vhosts/orders").status_code == 200, whole.log_end)
        assert got(fronts, whole, "orders", "q") == "one"
    admin.delete_topics([odd])[odd].result()

    wait_until(lambda: "vhost odd: leads" in whole.log.read_text(), whole.log_end)
    whole.stop()
