"""A log or an input that was deleted and made again under its name, on a real Kafka."""

import shutil

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in its stubs
    AdminClient,
    NewTopic,
)

from streaming.config.inputs import TopicMapping
from streaming.config.selectors import JsonValue
from streaming.job_locations import FRONT_FOLDER, checkpoint_place
from tests.bench.processes import Process
from tests.fixtures.fronts import Fronts
from tests.fixtures.waiting import wait_until


def test_a_front_leads_a_log_that_was_made_again_whatever_led_the_log_before(fronts):
    first = fronts.start()
    channel = fronts.connect(first).channel()
    channel.confirm_delivery()
    channel.queue_declare("work")
    for number in range(100):
        channel.basic_publish("", "work", f"{number}".encode())
    first.stop()
    second = fronts.start()  # its epoch is not the first record
    fronts.connect(second)
    second.kill()

    topic = fronts.config.log_topics()["/"]
    admin = AdminClient({"bootstrap.servers": fronts.servers})
    admin.delete_topics([topic])[topic].result(60)
    wait_until(lambda: topic not in admin.list_topics(timeout=30).topics)
    shutil.rmtree(str(checkpoint_place(fronts.config, {}) / FRONT_FOLDER))

    third = fronts.start()
    channel = fronts.connect(third).channel()
    channel.confirm_delivery()
    channel.queue_declare("work")
    standby = fronts.start("--standby")
    wait_until(lambda: standby.log.exists() and "records of" in standby.log.read_text())
    for number in range(50):
        channel.basic_publish("", "work", f"{number}".encode())
        channel.connection.sleep(0.1)  # for several looks at who leads
    third.check()
    assert channel.queue_declare("work", passive=True).method.message_count == 50


def test_an_input_that_was_made_again_is_refused_until_its_loss_is_accepted(
    tmp_path, embedded_kafka
):
    servers = embedded_kafka.bootstrap_servers
    mapping = TopicMapping(exchange="", routing_key=JsonValue(name="$.queue"))
    fronts = Fronts(tmp_path, servers, mapping)
    topic = f"{fronts.name}.mapped"
    admin = AdminClient({"bootstrap.servers": servers})

    def make() -> None:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)

    def feed(count: int) -> None:
        producer = Producer({"bootstrap.servers": servers})
        for _ in range(count):
            producer.produce(topic, b'{"queue": "fed"}')
        assert producer.flush(60) == 0

    def ready_in(front: Process) -> int:
        channel = fronts.connect(front).channel()
        return int(channel.queue_declare("fed").method.message_count)

    try:
        make()
        front = fronts.start()
        assert ready_in(front) == 0  # the queue is there before what it gets
        feed(10)
        wait_until(lambda: ready_in(front) == 10)
        front.stop()
        admin.delete_topics([topic])[topic].result(60)
        wait_until(lambda: topic not in admin.list_topics(timeout=30).topics)
        make()
        feed(30)  # so it has the offset behind what was copied, too

        refused = fronts.start()
        wait_until(lambda: "deleted and made again" in refused.log_end())
        wait_until(lambda: "stopped" in refused.log_end())
        accepting = fronts.start("--accept-loss")
        wait_until(lambda: ready_in(accepting) == 40)
        accepting.stop()
        again = fronts.start()
        assert ready_in(again) == 40
        again.stop()
    finally:
        fronts.end()
