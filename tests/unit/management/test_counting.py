import pytest

from streaming.amqp import methods as m
from streaming.amqp.clocks import ManualClock
from streaming.management.counting import SAMPLE_MS, Series
from tests.amqp_client import RawClient
from topology.values import Table


@pytest.fixture
def sample(management, broker):
    """Lets five seconds pass, and takes a sample."""

    def take():
        clock = broker.clock
        assert isinstance(clock, ManualClock)
        clock.move_to(clock.now_ms() + SAMPLE_MS)
        broker.server.advance()
        for _ in management.api.counting.sample(clock.now_ms(), broker.server.vhosts):
            pass

    return take


@pytest.fixture
def amqp(broker, management):
    return RawClient(broker)


def stats(api, queue):
    return api.get(f"queues/%2F/{queue}")["message_stats"]


def test_what_clients_do_is_counted_by_queue(api, amqp):
    amqp.ask(m.QueueDeclare(queue="q"))
    for _ in range(6):
        amqp.publish("", "q", b"x")
    amqp.ask(m.BasicGet(queue="q", no_ack=True))
    amqp.ask(m.BasicGet(queue="q"))
    amqp.send(1, m.BasicReject(1 + 1, requeue=True))
    amqp.ask(m.BasicConsume(queue="q", consumer_tag="c"))
    amqp.send(1, m.BasicAck(4))

    counts = stats(api, "q")

    assert counts["publish"] == 6
    assert (counts["get_no_ack"], counts["get"], counts["deliver"]) == (1, 1, 5)
    assert (counts["deliver_get"], counts["ack"], counts["redeliver"]) == (7, 1, 1)


def test_a_get_of_nothing_is_counted(api, amqp):
    amqp.ask(m.QueueDeclare(queue="q"))
    amqp.ask(m.BasicGet(queue="q"))
    amqp.publish("", "q", b"x")
    amqp.ask(m.BasicGet(queue="q", no_ack=True))

    assert stats(api, "q")["get_empty"] == 1


def test_dead_letters_are_not_published_by_clients(api, amqp):
    arguments: Table = {
        "x-max-length": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    amqp.ask(m.QueueDeclare(queue="dead"))
    amqp.ask(m.QueueDeclare(queue="q", arguments=arguments))
    for _ in range(3):
        amqp.publish("", "q", b"x")

    assert stats(api, "q")["publish"] == 3
    assert "message_stats" not in api.get("queues/%2F/dead")
    assert api.get("queues/%2F/dead")["messages"] == 2


def test_rates_are_growth_between_two_samples(api, amqp, sample):
    amqp.ask(m.QueueDeclare(queue="q"))
    sample()
    for _ in range(20):
        amqp.publish("", "q", b"x")
    assert stats(api, "q")["publish_details"] == {"rate": 0.0}
    sample()

    assert stats(api, "q")["publish_details"] == {"rate": 0.0}  # its first sample
    for _ in range(10):
        amqp.publish("", "q", b"x")
    sample()
    assert stats(api, "q")["publish_details"] == {"rate": 2.0}
    assert api.get("queues/%2F/q")["messages_details"] == {"rate": 2.0}
    overview = api.get("overview")
    assert overview["message_stats"]["publish"] == 30
    assert overview["message_stats"]["publish_details"] == {"rate": 2.0}
    assert overview["queue_totals"]["messages_details"] == {"rate": 2.0}
    assert api.get("vhosts/%2F")["message_stats"]["publish_details"] == {"rate": 2.0}
    sample()
    assert stats(api, "q")["publish_details"] == {"rate": 0.0}


def test_a_history_has_a_sample_for_each_step(api, amqp, sample):
    amqp.ask(m.QueueDeclare(queue="q"))
    for _ in range(3):
        amqp.publish("", "q", b"x")
        sample()

    found = api.get("queues/%2F/q?lengths_age=20&lengths_incr=5")["messages_details"]

    assert [each["sample"] for each in found["samples"]] == [3, 2, 1, 0, 0]
    times = [each["timestamp"] for each in found["samples"]]
    assert times == [times[0] - step * SAMPLE_MS for step in range(5)]
    assert (found["avg"], found["avg_rate"], found["rate"]) == (1.2, 0.15, 0.2)


def test_confirms_returns_and_what_reached_nothing(api, amqp):
    amqp.publish("", "nowhere", b"x")
    amqp.ask(m.ConfirmSelect())
    amqp.publish("", "nowhere", b"x", mandatory=True)

    counts = api.get("overview")["message_stats"]

    assert (counts["publish"], counts["confirm"]) == (2, 1)
    assert (counts["drop_unroutable"], counts["return_unroutable"]) == (1, 1)


def test_a_queue_that_is_declared_again_counts_from_zero(api, amqp):
    amqp.ask(m.QueueDeclare(queue="q"))
    amqp.publish("", "q", b"x")
    amqp.ask(m.QueueDelete(queue="q"))
    amqp.ask(m.QueueDeclare(queue="q"))

    assert "message_stats" not in api.get("queues/%2F/q")
    assert api.get("overview")["message_stats"]["publish"] == 1


def test_queues_that_are_still_keep_no_samples(api, amqp, sample, management):
    amqp.ask(m.QueueDeclare(queue="q"))
    amqp.publish("", "q", b"x")
    sample()
    series = management.api.counting.queue("/", "q")[1]
    assert series is not None

    for _ in range(15):
        sample()

    assert management.api.counting.queue("/", "q")[1] is None


def test_what_comes_and_goes_is_counted(api, amqp):
    amqp.ask(m.QueueDeclare(queue="q"))
    amqp.ask(m.QueueDelete(queue="q"))

    churned = api.get("overview")["churn_rates"]

    assert (churned["queue_created"], churned["queue_deleted"]) == (1, 1)
    assert churned["channel_created"] >= 1


def test_vhosts_that_come_and_go_without_the_api_are_counted(api, broker, sample):
    broker.add_vhost("other")
    sample()
    assert {one["name"] for one in api.get("vhosts")} == {"/", "other"}

    broker.reset()
    sample()

    (vhost,) = api.get("vhosts")
    assert "message_stats" not in vhost
    api.put("queues/%2F/q")
    message = {"properties": {}, "routing_key": "q", "payload": "", "payload_encoding": "string"}
    api.ask("POST", "exchanges/%2F/amq.default/publish", message)
    assert api.get("queues/%2F/q")["message_stats"]["publish"] == 1


def test_series_without_time_between_samples_have_no_rate():
    series = Series(3)
    assert series.rate("a") == 0.0
    series.add(1000, {"a": 1})
    series.add(1000, {"a": 2})
    assert series.rate("a") == 0.0
    assert series.history("a", 1000, 0, 5)["avg_rate"] == 0.0


def test_what_at_least_once_dead_lettering_holds_is_among_the_messages(api, amqp, sample):
    """As in RabbitMQ 4.0.5: it is neither ready nor unacknowledged."""
    arguments: Table = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "missing",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    amqp.ask(m.QueueDeclare(queue="q", durable=True, arguments=arguments))
    amqp.publish("", "q", b"1234")
    amqp.ask(m.BasicGet(queue="q"))
    amqp.send(1, m.BasicReject(1, requeue=False))
    sample()
    lengths = {"messages": 1, "messages_ready": 0, "messages_unacknowledged": 0}
    sizes = {"message_bytes": 4, "message_bytes_dlx": 4, "message_bytes_ready": 0}
    whole = lengths | sizes | {"messages_dlx": 1, "messages_persistent": 1}

    found = api.get("queues/%2F/q")

    assert {name: found[name] for name in whole} == whole
    totals = "?disable_stats=true&enable_queue_totals=true"
    for shown in (
        api.get("overview")["queue_totals"],
        api.get("vhosts/%2F"),
        api.get("queues")[0],
        api.get(f"queues{totals}")[0],
    ):
        assert {name: shown[name] for name in lengths} == lengths
    found = api.get("queues?lengths_age=60&lengths_incr=5")[0]
    assert found["messages_details"]["samples"][0]["sample"] == 1
