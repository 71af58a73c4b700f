from streaming.amqp import inspection
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


def test_the_newest_deaths_are_remembered_as_far_as_their_messages_are_small(monkeypatch):
    monkeypatch.setattr(inspection, "MAX_DEATH_BYTES", 20_000)
    monkeypatch.setattr(inspection, "MAX_DEATHS", 5)
    broker = memory_broker()
    client = RawClient(broker)
    client.ask(m.QueueDeclare(queue="q", arguments={"x-max-length": 0}))
    deaths = broker.deaths["/"]

    for number in range(7):
        client.publish("", "q", b"%d" % number)
    few = [death.body for death in deaths.newest_last()]
    for _ in range(3):
        client.publish("", "q", bytes(9000))

    assert few == [b"2", b"3", b"4", b"5", b"6"]
    assert [len(death.body) for death in deaths.newest_last()] == [9000]
