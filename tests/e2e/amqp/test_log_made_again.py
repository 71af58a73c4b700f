"""A log that was deleted and made again under its name, on a real Kafka."""

import shutil

from confluent_kafka.admin import AdminClient

from streaming.job_locations import checkpoint_place
from streaming.sequencer.snapshots import FOLDER
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
    shutil.rmtree(str(checkpoint_place(fronts.config, {}) / FOLDER))

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
