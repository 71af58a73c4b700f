"""Declaring, redeclaring and deleting: RabbitMQ's codes, and the events."""

import re

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.state.vhost_codec import encode_vhost
from tests.builders import Broker, a_queue
from topology.declarations import Binding, Exchange, Policy, Queue
from topology.refusals import Refusal


def code_of(refusal: Refusal | None) -> int | None:
    return None if refusal is None else refusal.code


@pytest.mark.parametrize(
    ("declaration", "code"),
    [
        (Queue("amq.mine"), 403),
        (Queue("q", arguments={"x-message-ttl": -1}), 406),
        (Queue("q", arguments={"x-message-ttl": "soon"}), 406),
        (Queue("q", arguments={"x-expires": 0}), 406),
        (Queue("q", arguments={"x-max-length": -1}), 406),
        (Queue("q", arguments={"x-overflow": "drop-tail"}), 406),
        (Queue("q", arguments={"x-max-priority": 256}), 406),
        (Queue("q", arguments={"x-dead-letter-routing-key": "k"}), 406),
        (Queue("q", arguments={"x-delivery-limit": 1}), 406),
        (Queue("q", arguments={"x-queue-type": "stream"}), 406),
        (Queue("q", durable=False, arguments={"x-queue-type": "quorum"}), 406),
        (Queue("n" * 256), 406),
    ],
)
def test_a_queue_that_rabbitmq_refuses_is_refused_and_not_declared(declaration, code):
    """R-POL-11."""
    broker = Broker()

    refusal = broker.refusal(commands.DeclareQueue(queue=declaration))

    assert code_of(refusal) == code
    assert broker.shard.vhost.queues == {}
    assert [kind for kind, *_ in broker.of_kind(Kind.TOPOLOGY)] == []


@pytest.mark.parametrize(
    ("exchange", "code"),
    [
        (Exchange("x", "x-delayed-message"), 406),
        (Exchange("amq.mine"), 403),
        (Exchange(""), 403),
        (Exchange("x", arguments={"alternate-exchange": 1}), 406),
        (Exchange("amq.topic", "direct"), 406),
    ],
)
def test_an_exchange_that_rabbitmq_refuses_is_refused(exchange, code):
    broker = Broker()

    assert code_of(broker.refusal(commands.DeclareExchange(exchange=exchange))) == code


def test_an_equivalent_declaration_changes_nothing():
    """R-DEF-4."""
    broker = Broker()
    for _ in range(2):
        assert broker.queue("q", max_length=1) is None
        assert broker.exchange("x", "topic") is None
        assert broker.bind("x", "q", "k") is None

    events = [(detail["what"], detail["name"]) for _, detail in broker.of_kind(Kind.TOPOLOGY)]
    assert events == [("queue_declared", "q"), ("exchange_declared", "x"), ("bound", "q")]


def test_an_inequivalent_declaration_is_refused_with_rabbitmqs_text():
    broker = Broker()
    broker.queue("q")
    broker.exchange("x", "topic")

    assert broker.queue("q", max_length=1) == Refusal(
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/':"
        " received the value '1' of type 'signedint' but current is none",
    )
    assert broker.exchange("x", "direct") == Refusal(
        406,
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/':"
        " received 'direct' but current is 'topic'",
    )


def test_the_broker_names_no_quorum_queue_whatever_else_is_wrong_with_it():
    broker = Broker()
    queue = Queue("", arguments={"x-queue-type": "quorum", "x-max-length": -1})

    refused = broker.refusal(commands.DeclareQueue(queue=queue))

    text = "Cannot declare a server-named queue for type rabbit_quorum_queue"
    assert refused == Refusal(406, f"PRECONDITION_FAILED - {text}")


def test_a_passive_declaration_declares_nothing():
    broker = Broker()
    broker.queue("q")
    broker.publish("", "q", "m1")

    queue = commands.DeclareQueue(queue=Queue("q", arguments={"x-max-length": 9}), passive=True)
    exchange = commands.DeclareExchange(exchange=Exchange("x"), passive=True)

    assert broker.answer(queue) == {"queue": "q", "ready": 1, "consumers": 0}
    assert broker.refusal(exchange) == Refusal(404, "NOT_FOUND - no exchange 'x' in vhost '/'")
    assert broker.refusal(commands.DeclareQueue(queue=Queue("r"), passive=True)) == Refusal(
        404, "NOT_FOUND - no queue 'r' in vhost '/'"
    )
    assert (
        broker.refusal(commands.DeclareExchange(exchange=Exchange("amq.topic"), passive=True))
        is None
    )


def test_a_queue_without_a_name_gets_a_name_that_clients_cannot_declare():
    broker = Broker()
    named = broker.answer(commands.DeclareQueue(queue=Queue("")))
    other = broker.answer(commands.DeclareQueue(queue=Queue("")))

    assert isinstance(named, dict)
    assert isinstance(other, dict)
    assert named["queue"].startswith("amq.gen-")
    assert named["queue"] != other["queue"]
    assert broker.answer(commands.DeclareQueue(queue=Queue(named["queue"]))) == named


def test_a_refusal_of_a_queue_without_a_name_says_which_name_it_was_given():
    broker = Broker()

    refusal = broker.refusal(commands.DeclareQueue(queue=Queue("", arguments={"x-expires": 0})))

    assert refusal is not None
    assert re.match(
        r"PRECONDITION_FAILED - invalid arg 'x-expires' for queue 'amq\.gen-[\w-]+' in vhost '/': ",
        refusal.text,
    )


@pytest.mark.parametrize(
    ("binding", "refusal"),
    [
        (Binding("none", "q"), Refusal(404, "NOT_FOUND - no exchange 'none' in vhost '/'")),
        (Binding("x", "none"), Refusal(404, "NOT_FOUND - no queue 'none' in vhost '/'")),
        (
            Binding("x", "none", "exchange"),
            Refusal(404, "NOT_FOUND - no exchange 'none' in vhost '/'"),
        ),
        (
            Binding("", "none"),
            Refusal(403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        ),
        (
            Binding("x", "", "exchange"),
            Refusal(403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        ),
    ],
)
def test_a_binding_needs_an_existing_source_and_destination(binding, refusal):
    broker = Broker()
    broker.queue("q")
    broker.exchange("x")

    assert broker.refusal(commands.Bind(binding=binding)) == refusal


def test_removing_a_missing_binding_is_no_error_but_unbinding_the_default_exchange_is():
    broker = Broker()
    broker.queue("q")

    assert broker.refusal(commands.Unbind(binding=Binding("amq.direct", "q"))) is None
    assert code_of(broker.refusal(commands.Unbind(binding=Binding("", "q")))) == 403


def test_topology_events_name_the_user_who_sent_the_command():
    broker = Broker()
    broker.do(commands.DeclareQueue(queue=Queue("q"), channel="c7"), user="ann")

    (event,) = [event for event in broker.everything() if event.kind is Kind.TOPOLOGY]

    assert (event.user, event.channel) == ("ann", "c7")


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Policy("p", "(", {"max-length": 1}), None),
        (Policy("p", r"(a)\1", {"max-length": 1}), None),
        (Policy("p", "q", {"unheard-of": 1}), None),
        (Policy("p", "q", {"max-length": -1}), None),
        (
            Policy("p", "q", {"max-length": 1}, 2**63),
            "PRECONDITION_FAILED - Validation failed:"
            " priority 9223372036854775808 is not a 64-bit integer",
        ),
    ],
)
def test_an_invalid_policy_is_refused_and_changes_nothing(policy, text):
    broker = Broker()
    broker.queue("q")
    before = broker.shard.state.queues.named("q").settings

    refusal = broker.refusal(commands.SetPolicy(policy=policy))

    assert code_of(refusal) == 406
    assert text is None or refusal == Refusal(406, text)
    assert broker.shard.state.queues.named("q").settings == before


def test_clearing_a_missing_policy_is_no_error():
    broker = Broker()

    assert broker.refusal(commands.ClearPolicy(name="none")) is None
    assert broker.refusal(commands.ClearOperatorPolicy(name="none")) is None
    assert broker.of_kind(Kind.TOPOLOGY) == []


def test_clearing_missing_permissions_is_no_error():
    broker = Broker()

    assert broker.refusal(commands.ClearPermissions(user="none")) is None
    assert broker.of_kind(Kind.TOPOLOGY) == []


def test_every_kind_of_declaration_is_kept_between_batches():
    broker = Broker()
    broker.exchange("x", "headers", auto_delete=True, internal=True, durable=False)
    broker.do(
        commands.DeclareQueue(
            queue=Queue("q", exclusive=True, arguments={"x-odd": [1, {"a": 2**70}]}), channel="c"
        )
    )
    broker.queue("r", durable=False, auto_delete=True)
    broker.bind("amq.topic", "r", "#.a", arguments={"b": b"\xff"})
    broker.policy("p", "r", {"max-length": 5})
    broker.policy("o", "r", {"max-length": 3}, operator=True)
    broker.do(commands.SetPermissions(user="ann", configure="a", write="b", read="c"))
    before = broker.shard.vhost

    broker.finish()

    after = broker.shard.vhost
    assert after is not before
    assert encode_vhost(after) == encode_vhost(before)
    assert after.queues == before.queues
    assert after.queue_names == before.queue_names
    assert after.exclusive_queues == {"q"}
    assert broker.shard.state.queues.named("r").settings.max_length == 3


def test_every_command_on_an_unknown_queue_is_answered_not_found():
    broker = Broker()

    for command in (
        commands.Get(queue="none"),
        commands.Consume(queue="none", label="c"),
        commands.Depth(queue="none"),
        commands.Purge(queue="none"),
    ):
        assert broker.refusal(command) == Refusal(404, "NOT_FOUND - no queue 'none' in vhost '/'")


def test_asking_for_the_depth_of_a_queue_counts_as_a_use():
    """R-QEXP-2."""
    broker = Broker()
    broker.do(commands.DeclareQueue(queue=a_queue("q", expires=1_000)))

    broker.at(900).do(commands.Depth(queue="q"))
    broker.at(1_899)
    before = broker.depth("q")
    broker.at(1_900)

    assert (before, broker.depth("q")) == (0, None)


@pytest.mark.parametrize("command", [commands.Bind, commands.Unbind])
def test_the_default_exchange_cannot_be_the_destination_of_a_binding(command):
    broker = Broker()

    of_exchange = broker.refusal(
        command(binding=Binding("amq.fanout", "", destination_type="exchange"))
    )
    of_queue = broker.refusal(command(binding=Binding("amq.fanout", "")))

    assert of_exchange is not None
    assert of_exchange.code == 403
    assert of_queue is None or of_queue.code == 404


@pytest.mark.parametrize("operator", [False, True])
@pytest.mark.parametrize(("compat", "is_refused"), [("3.10", True), ("4.0", False)])
def test_a_policy_is_checked_by_the_rules_of_the_rabbitmq_version(operator, compat, is_refused):
    """Only 4.x knows a negative delivery limit."""
    broker = Broker(compat=compat)

    refusal = broker.policy("p", "", {"delivery-limit": -1}, operator=operator)

    assert (refusal is not None) == is_refused
