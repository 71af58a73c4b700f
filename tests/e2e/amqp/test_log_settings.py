"""A log that somebody has made with Kafka's defaults, on a real Kafka."""

from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in its stubs
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from streaming.log_topics import log_topic_properties


def test_a_log_that_was_made_beforehand_keeps_all_that_clients_may_publish(fronts):
    topic = fronts.config.log_topics()["/"]
    admin = AdminClient({"bootstrap.servers": fronts.servers})
    poor = {
        "max.message.bytes": "50000",
        "retention.ms": "604800000",
        "retention.bytes": "1000000",
        "cleanup.policy": "compact",
        "message.timestamp.type": "LogAppendTime",
    }
    admin.create_topics([NewTopic(topic, 1, 1, config=poor)])[topic].result(60)
    front = fronts.start()
    channel = fronts.connect(front).channel()
    channel.confirm_delivery()
    channel.queue_declare("work")

    largest = bytes(fronts.config.flow.max_body_bytes)
    channel.basic_publish("", "work", largest, mandatory=True)

    _method, _properties, body = channel.basic_get("work", auto_ack=True)
    assert body == largest
    resource = ConfigResource(ResourceType.TOPIC, topic)
    shown = admin.describe_configs([resource])[resource].result(60)
    wanted = log_topic_properties(fronts.config)
    assert {name: shown[name].value for name in wanted} == wanted
