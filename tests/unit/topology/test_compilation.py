"""Definitions put into force."""

from topology.declarations import Binding, Definitions, Exchange, Policy, Queue
from topology.vhost import compile_topology


def test_policies_are_in_force_for_queues_and_for_exchanges_predeclared_ones_too():
    definitions = Definitions(
        exchanges=(Exchange("orders"), Exchange("other")),
        queues=(Queue("work"), Queue("audit")),
        bindings=(Binding("amq.topic", "work", routing_key="#"),),
        policies=(
            Policy("exchanges", "^(orders|amq.topic)$", {"alternate-exchange": "other"}),
            Policy("queues", "^work$", {"message-ttl": 5000}),
        ),
        operator_policies=(Policy("limit", "", {"message-ttl": 3000}, apply_to="queues"),),
    )

    compiled = compile_topology(definitions)

    alternates = {
        name: compiled.router.alternate_of(name) for name in ("orders", "amq.topic", "other")
    }
    assert alternates == {"orders": "other", "amq.topic": "other", "other": None}
    assert compiled.settings["work"].message_ttl_ms == 3000
    assert compiled.settings["audit"].message_ttl_ms == 3000
    assert compiled.router.bindings() == list(definitions.bindings)
    assert list(compiled.queues.values()) == list(definitions.queues)


def test_a_predeclared_exchange_may_be_among_the_definitions():
    definitions = Definitions(exchanges=(Exchange("amq.topic", "topic"),))

    assert "amq.topic" in compile_topology(definitions).router.exchanges


def test_the_default_delivery_limit_is_that_of_the_chosen_version():
    definitions = Definitions(queues=(Queue("q", arguments={"x-queue-type": "quorum"}),))

    limits = [
        compile_topology(definitions, compat).settings["q"].delivery_limit
        for compat in ("4.0", "3.10")
    ]

    assert limits == [20, None]
