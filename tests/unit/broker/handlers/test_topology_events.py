"""Every change of the topology is an event with the kind and the name of the changed object."""

from streaming.broker import commands
from streaming.broker.events import Kind
from tests.builders import Broker
from topology.declarations import Binding
from topology.refusals import Refusal


def changes(broker: Broker) -> list[dict[str, object]]:
    """The details of topology events since the start."""
    return [detail for _queue, detail in broker.of_kind(Kind.TOPOLOGY)]


def test_declarations_and_deletions_are_events():
    broker = Broker()
    broker.exchange("x", "topic")
    broker.quorum("q")
    broker.bind("x", "q", "a.#", arguments={"k": 1})

    broker.do(commands.Unbind(binding=Binding("x", "q", routing_key="a.#", arguments={"k": 1})))
    broker.do(commands.DeleteQueue(queue="q"))
    broker.do(commands.DeleteExchange(exchange="x"))

    binding = {
        "name": "q",
        "source": "x",
        "destination_type": "queue",
        "routing_key": "a.#",
        "arguments": {"k": 1},
    }
    exchange = {
        "name": "x",
        "type": "topic",
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": {},
    }
    queue = {
        "name": "q",
        "durable": True,
        "auto_delete": False,
        "arguments": {"x-queue-type": "quorum"},
    }
    assert changes(broker) == [
        {"what": "exchange_declared", "name": "x", "type": "topic", "declaration": exchange},
        {"what": "queue_declared", "name": "q", "type": "quorum", "declaration": queue},
        {"what": "bound", **binding},
        {"what": "unbound", **binding},
        {"what": "queue_deleted", "name": "q", "cause": "deleted", "ready": 0},
        {"what": "exchange_deleted", "name": "x"},
    ]


def test_changes_of_policies_and_permissions_are_events():
    broker = Broker()
    broker.policy("p", "", {"max-length": 1})
    broker.policy("o", "", {"max-length": 1}, operator=True)

    broker.do(commands.ClearPolicy(name="p"))
    broker.do(commands.ClearOperatorPolicy(name="o"))
    broker.do(commands.SetPermissions(user="clerk", configure="", write=".*", read=".*"))
    broker.do(commands.ClearPermissions(user="clerk"))

    policy = {"pattern": "", "definition": {"max-length": 1}, "priority": 0}
    ordinary = {"name": "p", **policy, "apply-to": "all"}
    operator = {"name": "o", **policy, "apply-to": "all"}
    permission = {"user": "clerk", "configure": "", "write": ".*", "read": ".*"}
    assert changes(broker) == [
        {"what": "policy_set", "name": "", "policy": "p", "declaration": ordinary},
        {"what": "operator_policy_set", "name": "", "policy": "o", "declaration": operator},
        {"what": "policy_cleared", "name": "", "policy": "p"},
        {"what": "operator_policy_cleared", "name": "", "policy": "o"},
        {"what": "permissions_set", "name": "", "user": "clerk", "declaration": permission},
        {"what": "permissions_cleared", "name": "", "user": "clerk"},
    ]


def test_a_policy_and_an_operator_policy_of_one_name_are_cleared_each_by_its_own_command():
    broker = Broker()
    broker.queue("q")
    broker.policy("p", "", {"max-length": 1})
    broker.policy("p", "", {"max-length": 2}, operator=True)

    broker.do(commands.ClearPolicy(name="p"))
    for body in ("m1", "m2", "m3"):
        broker.publish("", "q", body)
    limited = broker.depth("q")
    broker.do(commands.ClearOperatorPolicy(name="p"))
    broker.publish("", "q", "m4")

    assert (limited, broker.depth("q")) == (2, 3)


def test_removing_a_missing_object_is_no_event():
    broker = Broker()

    refusals = [
        broker.refusal(command)
        for command in (
            commands.DeleteQueue(queue="q"),
            commands.DeleteExchange(exchange="x"),
            commands.ClearPolicy(name="p"),
            commands.ClearOperatorPolicy(name="p"),
            commands.ClearPermissions(user="clerk"),
        )
    ]

    assert refusals == [None] * 5
    assert changes(broker) == []


def test_permissions_whose_pattern_is_not_supported_are_refused_with_the_reason():
    broker = Broker()

    refusal = broker.refusal(
        commands.SetPermissions(user="clerk", configure="(?<=a)b", write="", read="")
    )

    assert isinstance(refusal, Refusal)
    assert refusal.code == 406
    assert "(?<=a)b" in refusal.text
    assert changes(broker) == []
