"""What KEDA's RabbitMQ scaler asks, and reads of the answers."""

from streaming.amqp import methods as m
from streaming.amqp.clocks import ManualClock
from streaming.management.counting import SAMPLE_MS
from tests.amqp_client import RawClient


def test_the_length_and_the_rates_of_a_queue(api, broker, management):
    amqp = RawClient(broker)
    amqp.ask(m.QueueDeclare(queue="jobs"))
    clock = broker.clock
    assert isinstance(clock, ManualClock)
    for _ in range(2):
        for _ in range(10):
            amqp.publish("", "jobs", b"x")
        amqp.ask(m.BasicGet(queue="jobs"))
        clock.move_to(clock.now_ms() + SAMPLE_MS)
        for _ in management.api.counting.sample(clock.now_ms(), broker.server.vhosts):
            pass

    queue = api.get("queues/%2F/jobs")

    assert queue["name"] == "jobs"
    assert (queue["messages"], queue["messages_ready"]) == (20, 18)
    assert queue["messages_unacknowledged"] == 2
    assert queue["message_stats"]["publish_details"]["rate"] == 2.0
    assert queue["message_stats"]["deliver_get_details"]["rate"] == 0.2


def test_the_queues_that_a_regular_expression_names(api):
    for name in ("jobs-1", "jobs-2", "other"):
        api.put(f"queues/%2F/{name}", {"durable": True})

    query = "page=1&use_regex=true&pagination=false&name=%5Ejobs&page_size=100"
    found = api.get(f"queues/%2F?{query}")

    assert [queue["name"] for queue in found["items"]] == ["jobs-1", "jobs-2"]
    assert [queue["messages"] for queue in found["items"]] == [0, 0]
    assert (found["page_count"], found["filtered_count"], found["total_count"]) == (1, 2, 3)
