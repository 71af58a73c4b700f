"""Services: the client for asyncio, and functions that consume queues, with a real job."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from streaming.client import ClientError, NotFoundError, UnroutableError, aio
from streaming.config import show_config
from tests.fixtures.child import Child
from tests.fixtures.jobs import get_when_there
from tests.fixtures.waiting import WAIT_S, wait_until


@pytest.fixture(scope="module", autouse=True)
def _found(running_job):
    """Wait for the first heartbeat: those of earlier jobs say that they serve other vhosts."""
    wait_until(running_job.is_found)


SERVICE = """
import asyncio, logging, os
from streaming.client import consumer, run

logging.basicConfig(level=logging.INFO, format="%(message)s")
MARK = os.environ["MARK"]

@consumer(f"plain-{MARK}", concurrency=2, retries=1)
def plain(delivery):
    # one string: two threads print
    print(f"plain {delivery.body.decode()} {delivery.delivery_count}\\n", end="", flush=True)
    if delivery.body == b"bad":
        raise ValueError("cannot handle it")
    if delivery.body == b"own":
        delivery.reject(requeue=False)

@consumer(f"coroutine-{MARK}")
async def coroutine(delivery):
    print("coroutine", delivery.body.decode(), flush=True)
    await asyncio.sleep(0.5)
    print("coroutine ended", delivery.body.decode(), flush=True)

run(address=os.environ["KAFKA"], vhost=os.environ["VHOST"], timeout_s=float(os.environ["WAIT_S"]))
print("run returned", flush=True)
"""


def connection_of(running_job):
    return aio.Connection(running_job.servers, vhost=running_job.own_vhost, timeout_s=WAIT_S)


def test_tasks_publish_consume_settle_and_learn_of_errors(running_job, name):
    queue, dead = name("work"), name("dead")
    seen = []

    async def main():
        async with connection_of(running_job) as connection, connection.channel() as channel:
            await channel.declare_queue(dead)
            arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
            await channel.declare_queue(queue, arguments=arguments)
            async with connection.publisher() as publisher:
                await asyncio.gather(*(publisher.publish("", queue, f"{n}") for n in range(20)))
                with pytest.raises(UnroutableError):
                    await publisher.publish("", name("nosuch"), "x", mandatory=True)
                with pytest.raises(ClientError):
                    await publisher.publish("", queue, "x", {"nosuch": 1})
            async for delivery in channel.consume(queue, prefetch=5):
                seen.append(delivery.body)
                if len(seen) == 20:
                    await delivery.nack(requeue=False, reason="no such item")
                    break
                await delivery.ack()
            assert await channel.sync() == []
            consumer = await channel.consume(dead)
            delivery = await consumer.next(WAIT_S)
            assert (delivery.body, delivery.x_death[0].reason) == (b"19", "rejected")
            assert delivery.headers["x-exception-message"] == "no such item"
            await delivery.ack()
            assert await consumer.next(0.1) is None
            with pytest.raises(NotFoundError):
                await channel.get(name("nosuch"))
            with pytest.raises(NotFoundError):
                await consumer.next()

    asyncio.run(main())
    assert seen == [f"{number}".encode() for number in range(20)]


def test_what_a_cancelled_get_and_consume_received_is_requeued(running_job, name):
    queue = name("work")

    async def main():
        async with connection_of(running_job) as connection, connection.channel() as channel:
            await channel.declare_queue(queue)
            await connection.publisher().publish("", queue, "kept")
            for start in (channel.get(queue), channel.consume(queue)):
                task = asyncio.ensure_future(start)
                await asyncio.sleep(0)  # the command is under way
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            delivery = await (await channel.consume(queue)).next()
            assert delivery is not None
            assert delivery.body == b"kept"
            await delivery.ack()

    asyncio.run(asyncio.wait_for(main(), WAIT_S))


def test_transactions_commit_abort_and_take_turns(running_job, name):
    queue = name("steps")

    async def main():
        async with connection_of(running_job) as connection, connection.channel() as channel:
            await channel.declare_queue(queue)
            confirms = []

            async def publish(body):
                async with connection.transaction() as transaction:
                    confirm = await transaction.publish("", queue, body)
                    with pytest.raises(ClientError, match="after the commit"):
                        await confirm
                    with pytest.raises(ClientError, match="do not nest"):
                        async with connection.transaction():
                            pass
                    confirms.append(confirm)
                    if body == b"aborted":
                        raise KeyError(body)

            outcomes = await asyncio.gather(
                publish(b"1"), publish(b"aborted"), publish(b"2"), return_exceptions=True
            )
            assert [type(outcome) for outcome in outcomes] == [type(None), KeyError, type(None)]
            await confirms[0]
            await confirms[2]
            found = await channel.get_many(queue, 9)
            assert {each.body for each in found} == {b"1", b"2"}
            await channel.ack(found)

    asyncio.run(main())


def test_callbacks_are_awaited_one_at_a_time_until_stopped(running_job, name):
    queue = name("work")
    seen = []

    async def main():
        async with connection_of(running_job) as connection, connection.channel() as channel:
            await channel.declare_queue(queue)
            for number in range(3):
                await connection.publisher().publish("", queue, f"{number}")

            async def on_message(delivery):
                seen.append(delivery.body)
                await delivery.ack()
                if len(seen) == 3:
                    channel.stop_consuming()

            await channel.consume(queue, on_message)
            await channel.start_consuming(WAIT_S)

    asyncio.run(main())
    assert seen == [b"0", b"1", b"2"]


def test_decorated_functions_consume_until_sigterm(running_job, name):
    mark = name("service")
    queues = [f"plain-{mark}", f"coroutine-{mark}"]
    with running_job.connect(vhost=running_job.own_vhost) as connection:
        channel = connection.channel()
        channel.declare_queue(f"dead-{mark}")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"dead-{mark}"}
        for queue in queues:
            channel.declare_queue(queue, arguments=arguments)
        publisher = connection.publisher()
        for body in ("good", "bad", "own"):
            publisher.publish("", queues[0], body).result(WAIT_S)
        process = Child(
            [sys.executable, "-c", SERVICE],
            env={
                **os.environ,
                "MARK": mark,
                "KAFKA": running_job.servers,
                "VHOST": running_job.own_vhost,
                "WAIT_S": str(WAIT_S),
            },
            stderr=subprocess.STDOUT,
        )
        try:
            dead = [get_when_there(channel, f"dead-{mark}") for _ in range(2)]
            publisher.publish("", queues[1], "slow").result(WAIT_S)
            while process.line() != "coroutine slow":
                pass
            process.send_signal(signal.SIGTERM)
            process.rest()
            process.wait()
        finally:
            process.kill()
            process.wait()
        printed = "".join(process.printed)
        depths = [channel.queue_depth(queue) for queue in queues]

    assert sorted(each.body for each in dead) == [b"bad", b"own"]
    reasons = {each.body: each.headers.get("x-exception-message") for each in dead}
    assert reasons == {b"bad": "ValueError: cannot handle it", b"own": None}
    assert printed.count("plain good 0\n") == 1
    assert printed.count("plain bad") == 2
    assert printed.count("plain own") == 1
    assert "ValueError: cannot handle it" in printed
    assert printed.endswith("coroutine ended slow\nrun returned\n")
    assert process.returncode == 0
    assert depths == [0, 0]


STUCK = """
import os, threading
from streaming.client import consumer, run

@consumer(os.environ["QUEUE"])
def stuck(delivery):
    print("stuck", flush=True)
    threading.Event().wait()

run(
    address=os.environ["KAFKA"], vhost=os.environ["VHOST"], timeout_s=float(os.environ["WAIT_S"]),
    stop_timeout_s=0.2,
)
"""


def test_a_function_that_never_returns_does_not_keep_the_process(running_job, name):
    queue = name("stuck")
    with running_job.connect(vhost=running_job.own_vhost) as connection:
        channel = connection.channel()
        channel.declare_queue(queue)
        connection.publisher().publish("", queue, "x").result(WAIT_S)
        process = Child(
            [sys.executable, "-c", STUCK],
            env={
                **os.environ,
                "QUEUE": queue,
                "KAFKA": running_job.servers,
                "VHOST": running_job.own_vhost,
                "WAIT_S": str(WAIT_S),
            },
        )
        try:
            assert process.line() == "stuck"
            process.send_signal(signal.SIGTERM)
            process.communicate()
        finally:
            process.kill()
            process.wait()

        assert process.returncode == 0
        assert get_when_there(channel, queue).redelivered


def test_a_missing_queue_ends_the_service_with_its_error(running_job, name):
    program = SERVICE.replace("plain-", "nosuch-")
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "MARK": name("service"),
            "KAFKA": running_job.servers,
            "VHOST": running_job.own_vhost,
            "WAIT_S": str(WAIT_S),
        },
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )

    assert finished.returncode == 1
    assert "NotFoundError" in finished.stderr


def test_a_connection_that_is_not_open_says_what_to_do():
    async def main():
        with pytest.raises(ClientError, match="async with"):
            aio.Connection("localhost:1").channel()

    asyncio.run(main())


def test_waiting_tasks_end_when_the_connection_closes(running_job, name):
    queue = name("work")

    async def main():
        connection = await connection_of(running_job).open()
        channel = await connection.channel()
        await channel.declare_queue(queue)
        consumer = await channel.consume(queue)
        waiting = asyncio.create_task(consumer.next())
        await connection.close()
        assert await asyncio.wait_for(waiting, WAIT_S) is None
        with pytest.raises(ClientError):
            await channel.declare_queue(queue)
        await connection.close()

    asyncio.run(main())


def test_the_installed_wheel_talks_to_a_job(running_job, wheel_environment, name):
    program = f"""
from streaming.client import Connection

with Connection({running_job.servers!r}, vhost={running_job.own_vhost!r}, timeout_s={WAIT_S}) as it:
    channel = it.channel()
    channel.declare_queue({name("wheel")!r})
    it.publisher().publish("", {name("wheel")!r}, "from the wheel").result()
    print(next(iter(channel.consume({name("wheel")!r}))).body.decode())
"""
    finished = wheel_environment.run("python", "-c", program)

    assert (finished.stdout, finished.stderr) == ("from the wheel\n", "")


def test_the_commands_of_the_installed_wheel_talk_to_a_job(running_job, wheel_environment, name):
    queue = name("wheel")
    config = running_job.root / "dlx.toml"
    config.write_text(show_config(running_job.config), "utf-8")
    with running_job.connect() as connection:
        connection.channel().declare_queue(queue)
    common = ("--config", str(config), "--timeout", str(WAIT_S))

    published = wheel_environment.run("dlx", "publish", "hello", "-k", queue, *common)
    got = wheel_environment.run("dlx", "get", queue, "--auto-ack", *common)

    assert (published.returncode, got.returncode) == (0, 0), published.stderr + got.stderr
    assert "hello" in got.stdout
