from streaming.amqp import methods as m
from streaming.amqp.inspection import DeathRecord
from tests.amqp_client import RawClient, memory_broker


def test_the_death_of_a_messages_last_copy_is_remembered_with_its_body():
    broker = memory_broker()
    client = RawClient(broker)
    client.ask(m.QueueDeclare(queue="q", arguments={"x-max-length": 1}))

    client.publish("", "q", b"old", message_id="m1")
    client.publish("", "q", b"new")

    (death,) = broker.deaths["/"].newest_last()
    assert death == DeathRecord(
        death.at_ms, "q", "maxlen", b"old", {"message_id": "m1"}, (), death.outcome
    )
    assert client.ask(m.QueueDeclare(queue="q", passive=True)) == m.QueueDeclareOk("q", 1, 0)
