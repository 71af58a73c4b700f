import asyncio
from threading import Event, Thread

import pika
import pytest

from streaming.amqp.clocks import ManualClock, milliseconds
from streaming.amqp.login import new_password_hash
from streaming.amqp.manual_time import ManualTime
from streaming.amqp.memory import MemoryBroker
from streaming.testing.broker import TestBroker
from tests.fixtures.waiting import WAIT_S, join
from topology.errors import InvalidTopologyError


@pytest.fixture(scope="module")
def running():
    broker = TestBroker().start()
    yield broker
    broker.stop()


@pytest.fixture
def broker(running):
    yield running
    running.reset()


@pytest.fixture
def channel(broker):
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        yield connection.channel()


def _declare_retry(channel):
    to_wait = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    to_work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    channel.queue_declare("work", arguments=to_wait)
    channel.queue_declare("wait", arguments={"x-message-ttl": 1_800_000, **to_work})


def test_timers_fire_when_the_test_says_so(broker, channel):
    _declare_retry(channel)
    channel.basic_publish("", "work", b"1", pika.BasicProperties(message_id="m"))
    method, _properties, _body = channel.basic_get("work")
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.queue_declare("wait", passive=True)

    broker.advance("29 minutes")
    waiting = broker.queues()["wait"].ready
    broker.advance(60)

    assert waiting == 1
    assert [message.body for message in broker.messages("work")] == [b"1"]
    assert [(death.queue, death.reason) for death in broker.deaths()] == [
        ("work", "rejected"),
        ("wait", "expired"),
    ]
    assert broker.messages("work")[0].message_id == "m"
    broker.assert_empty("wait")


def test_a_queue_that_is_not_empty_is_shown(broker, channel):
    _declare_retry(channel)
    channel.basic_publish("", "wait", b"order 17")
    channel.queue_declare("wait", passive=True)
    broker.advance("30 minutes")

    with pytest.raises(AssertionError, match=r"b'order 17' \(expired in wait x1\)"):
        broker.assert_empty("work")


def test_a_missing_queue_is_named_with_those_that_there_are(broker, channel):
    channel.queue_declare("work")

    with pytest.raises(KeyError, match="no queue 'werk' in vhost '/'; there are: work"):
        broker.messages("werk")


def test_definitions_and_their_users_are_loaded(broker):
    broker.load({"vhosts": [{"name": "/"}], "queues": [{"name": "q", "vhost": "/"}]})

    assert list(broker.queues()) == ["q"]


def test_a_reset_closes_connections_and_forgets_everything(broker):
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    connection.channel().queue_declare("q")

    broker.reset()

    assert broker.queues() == {}
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.process_data_events()


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (1.5, 1500),
        ("30 minutes", 1_800_000),
        ("1.5h", 5_400_000),
        ("250 ms", 250),
        ("2 days", 172_800_000),
    ],
)
def test_durations_are_read(duration, expected):
    assert milliseconds(duration) == expected


@pytest.mark.parametrize("duration", ["soon", "-1 s", -1, "3 fortnights", float("nan"), "nan"])
def test_durations_that_cannot_be_read_are_refused(duration):
    with pytest.raises(ValueError, match=r"is not a duration|does not go back"):
        milliseconds(duration)


@pytest.mark.parametrize("patience", [-1, float("nan"), "1", True])
def test_a_patience_that_is_not_a_number_from_0_is_refused(broker, patience):
    for refused in (
        lambda: broker.advance("1 s", patience_s=patience),
        lambda: broker.settle(patience_s=patience),
        lambda: TestBroker(patience_s=patience),
    ):
        with pytest.raises(ValueError, match=f"patience: {patience!r} is not a number of seconds"):
            refused()


@pytest.mark.parametrize("compat", ["3.13", 4.0])
def test_a_version_that_is_not_known_is_refused(compat):
    with pytest.raises(ValueError, match=f"compat is 4.0 or 3.10, not {compat!r}"):
        TestBroker(compat=compat)


def test_a_missing_vhost_is_named_with_those_that_there_are(broker):
    broker.add_vhost("shop")

    for ask in (
        broker.queues,
        broker.deaths,
        broker.delete_vhost,
        lambda name: broker.messages("q", name),
        lambda name: broker.assert_empty("q", name),
        lambda name: broker.wait_for_consumer("q", name),
    ):
        with pytest.raises(KeyError, match="no vhost 'shopp'; there are: /, shop"):
            ask("shopp")


def test_a_vhost_needs_a_name(broker):
    with pytest.raises(ValueError, match="the name of a vhost is not empty"):
        broker.add_vhost("")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'{"queues": [}', "is not JSON: Expecting value: line 1 column 13"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "is not a JSON object"),
    ],
)
def test_a_file_of_definitions_that_cannot_be_read_is_named(broker, tmp_path, content, text):
    file = tmp_path / "definitions.json"
    file.write_bytes(content)

    with pytest.raises(InvalidTopologyError) as refused:
        broker.load(file)

    assert str(refused.value).startswith(f"{file}: {text}")


def test_what_definitions_have_and_the_broker_does_not_is_in_the_log(broker, caplog):
    stream = {"name": "s", "vhost": "/", "arguments": {"x-queue-type": "stream"}}

    broker.load({"queues": [stream, {"name": "q", "vhost": "/"}]})

    assert list(broker.queues()) == ["q"]
    assert caplog.messages == [
        "definitions: skipped: queues[0]: queue type 'stream' is not supported"
    ]


def test_a_broker_that_does_not_run_says_so():
    broker = TestBroker()
    with pytest.raises(RuntimeError, match=r"does not run: call start\(\) first"):
        broker.advance("1 s")
    broker.stop()

    broker.start()
    broker.stop()
    broker.stop()

    with pytest.raises(RuntimeError, match="does not run"):
        broker.queues()


def test_waiting_for_a_consumer_says_what_is_missing(broker, channel):
    channel.queue_declare("q")

    with pytest.raises(TimeoutError, match="queue 'q' has no consumer"):
        broker.wait_for_consumer("q", timeout_s=0)


def test_vhosts_are_made_and_deleted_while_it_runs(broker):
    url = broker.add_vhost("a/b")
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"1")
    channel.queue_declare("q", passive=True)
    assert broker.queues("a/b")["q"].ready == 1
    assert broker.queues() == {}

    broker.delete_vhost("a/b")

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.queue_declare("other")
    assert (closed.value.reply_code, closed.value.reply_text) == (
        320,
        "CONNECTION_FORCED - vhost 'a/b' is deleted",
    )
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost a/b not found"):
        pika.BlockingConnection(pika.URLParameters(url))
    broker.add_vhost("a/b")
    with pika.BlockingConnection(pika.URLParameters(url)):
        assert broker.queues("a/b") == {}


def test_a_vhost_that_does_not_exist_cannot_be_deleted(broker):
    with pytest.raises(KeyError, match="none"):
        broker.delete_vhost("none")


def test_limits_hold_in_a_vhost_made_meanwhile(broker):
    url = broker.add_vhost("new")
    limit = {"component": "vhost-limits", "name": "limits", "vhost": "new"}
    value = {"max-connections": 1, "max-queues": 1}
    broker.load({"vhosts": [{"name": "new"}], "parameters": [{**limit, "value": value}]})

    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        with pytest.raises(pika.exceptions.AMQPError, match=r"limit \(1\)"):
            pika.BlockingConnection(pika.URLParameters(url))
        channel = connection.channel()
        channel.queue_declare("q")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"queue limit in vhost"):
            channel.queue_declare("r")


def test_definitions_with_users_leave_guest_and_let_it_into_their_vhosts(broker):
    broker.load(
        {
            "vhosts": [{"name": "/"}, {"name": "shop"}],
            "users": [
                {"name": "guest", "password_hash": new_password_hash("other"), "tags": "x"},
                {"name": "app", "password": "secret", "tags": ""},
            ],
            "permissions": [
                {"user": "app", "vhost": "/", "configure": "", "write": "", "read": ".*"}
            ],
            "queues": [{"name": "q", "vhost": "shop"}],
        }
    )

    pika.BlockingConnection(pika.URLParameters(broker.url)).close()
    pika.BlockingConnection(pika.URLParameters(broker.url + "shop")).close()
    of_app = broker.url.replace("guest:guest", "app:secret")
    pika.BlockingConnection(pika.URLParameters(of_app)).close()


def test_definitions_without_guest_leave_it(broker):
    broker.load({"users": [{"name": "app", "password": "secret", "tags": ""}]})

    pika.BlockingConnection(pika.URLParameters(broker.url)).close()


def test_time_waits_for_a_consumer_that_is_at_work(broker, channel):
    _declare_retry(channel)
    work = Event()

    def consume():
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            consuming = connection.channel()
            for method, _properties, _body in consuming.consume("work"):
                work.wait(0.4)  # longer than clients are silent when all is quiet
                consuming.basic_reject(method.delivery_tag, requeue=False)
                if work.is_set():
                    return

    consumer = Thread(target=consume)
    consumer.start()
    broker.wait_for_consumer("work")
    channel.basic_publish("", "work", b"1")
    channel.queue_declare("wait", passive=True)

    broker.advance("40 minutes")
    deaths = [(death.queue, death.reason) for death in broker.deaths()]
    work.set()
    broker.advance("40 minutes")
    join(consumer)

    assert deaths == [("work", "rejected"), ("wait", "expired"), ("work", "rejected")]


def test_a_consumer_that_does_not_settle_is_named(broker, channel):
    channel.queue_declare("q")
    channel.basic_consume("q", print, consumer_tag="c")
    channel.basic_publish("", "q", b"1")
    channel.queue_declare("q", passive=True)

    with pytest.raises(TimeoutError) as failed:
        broker.advance("1 minute", patience_s=0.1)
    before_ms = broker.now_ms
    broker.advance("30 s", patience_s=0)
    broker.advance("30 s")  # who moves the clock cannot settle meanwhile

    assert "consumer 'c' of 127.0.0.1:" in str(failed.value)
    assert "has not settled 1 of queue 'q'" in str(failed.value)
    assert broker.now_ms == before_ms + 60_000


def test_a_client_that_asks_an_empty_queue_does_not_hold_time_up(broker, channel):
    channel.queue_declare("q")
    asked, stopped = Event(), Event()

    def poll():
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            polling = connection.channel()
            while not stopped.wait(0.005):
                polling.basic_get("q")
                asked.set()

    poller = Thread(target=poll)
    poller.start()
    assert asked.wait(WAIT_S)

    broker.advance("1 minute")

    stopped.set()
    join(poller)


def test_time_that_is_moved_twice_at_once_passes_twice():
    clock = ManualClock()
    began_ms = clock.now_ms()
    server = MemoryBroker(clock, "4.0").server

    async def test():
        movers = ManualTime(server, clock), ManualTime(server, clock)  # as of two pages
        return await asyncio.gather(movers[0].advance(60_000), movers[1].advance(5_000))

    assert asyncio.run(test()) == [began_ms + 60_000, began_ms + 65_000]


def test_clients_that_never_rest_are_an_error():
    clock = ManualClock()
    broker = MemoryBroker(clock)
    broker.server.follows_wall_clock = False
    time = ManualTime(broker.server, clock, busy_s=0.1)

    async def test():
        loop = asyncio.get_running_loop()

        def go_on():
            broker.server.bytes_received += 1
            timer[:] = [loop.call_soon(go_on)]

        timer = [loop.call_soon(go_on)]
        with pytest.raises(TimeoutError, match=r"clients did not rest within 0\.1 s"):
            await time.advance(1)
        timer[0].cancel()

    asyncio.run(test())
