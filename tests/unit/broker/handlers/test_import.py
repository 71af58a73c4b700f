"""Importing a definitions document: all of it or nothing (R-DEF-1..4)."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.state.vhost_codec import encode_vhost
from tests.builders import Broker
from topology.refusals import Refusal

DOCUMENT: dict[str, Any] = {
    "rabbit_version": "4.0.5",
    "users": [{"name": "ann", "tags": "administrator"}],
    "permissions": [
        {"user": "ann", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
    ],
    "exchanges": [
        {"name": "x", "vhost": "/", "type": "topic", "durable": True, "arguments": {}},
        {"name": "plugged", "vhost": "/", "type": "x-random", "durable": True, "arguments": {}},
    ],
    "queues": [{"name": "q", "vhost": "/", "durable": True, "arguments": {}}],
    "bindings": [
        {
            "source": "x",
            "vhost": "/",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "#",
            "arguments": {},
        }
    ],
    "policies": [
        {"vhost": "/", "name": "p", "pattern": "^q$", "definition": {"max-length": 5}},
    ],
    "parameters": [
        {
            "component": "operator_policy",
            "vhost": "/",
            "name": "o",
            "value": {"pattern": "^q$", "definition": {"max-length": 3}, "apply-to": "queues"},
        }
    ],
}


def an_import(**members: Any) -> commands.ImportDefinitions:
    return commands.ImportDefinitions(definitions={**DOCUMENT, **members})


def test_an_export_is_imported_unchanged_and_unsupported_items_are_named():
    broker = Broker(enforce_permissions=True)

    answer = broker.answer(an_import())
    broker.publish("x", "any.key", "m1", user="ann")

    assert isinstance(answer, dict)
    assert answer["imported"] == 6
    assert [text for text in answer["skipped"] if "plugged" in text or "x-random" in text] != []
    assert broker.story() == ["m1 enqueued in q"]
    assert broker.shard.state.queues.named("q").settings.max_length == 3


def test_an_import_without_policies_leaves_the_settings_of_all_queues_as_computed():
    broker = Broker()
    broker.do(an_import())
    policies = broker.shard.vhost.policies
    before = policies.changes
    more = {**DOCUMENT["queues"][0], "name": "another"}

    broker.do(an_import(queues=[more], policies=[], parameters=[]))

    assert policies.changes == before
    assert broker.shard.state.queues.named("q").settings.max_length == 3
    broker.do(an_import())
    assert policies.changes > before


def test_a_second_import_changes_nothing_but_sets_policies_and_permissions_again():
    broker = Broker()
    broker.do(an_import())
    before = [detail["what"] for _, detail in broker.of_kind(Kind.TOPOLOGY)]

    broker.do(an_import())

    whats = [detail["what"] for _, detail in broker.of_kind(Kind.TOPOLOGY)]
    again = whats[len(before) :]
    assert before == [
        "permissions_set",
        "policy_set",
        "operator_policy_set",
        "exchange_declared",
        "queue_declared",
        "bound",
    ]
    assert again == ["permissions_set", "policy_set", "operator_policy_set"]


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"queues": [{"name": "q", "arguments": {"x-max-length": 1}}]}, 406),
        ({"exchanges": [{"name": "x", "type": "fanout"}]}, 406),
        ({"policies": [{"name": "p", "pattern": "(", "definition": {"max-length": 1}}]}, 406),
        (
            {
                "policies": [
                    {"name": "p", "pattern": "q", "definition": {}, "priority": 10**30},
                ]
            },
            406,
        ),
        ({"permissions": [{"user": "u", "configure": "(", "write": "", "read": ""}]}, 406),
        ({"queues": "none"}, 406),
    ],
)
def test_a_document_with_one_refused_object_is_not_imported_at_all(members, code):
    broker = Broker()
    broker.queue("q")
    broker.exchange("x", "topic")
    broker.finish()
    before = encode_vhost(broker.shard.vhost)

    refusal = broker.refusal(an_import(**members))

    assert isinstance(refusal, Refusal)
    assert refusal.code == code
    assert encode_vhost(broker.shard.vhost) == before


def a_binding(source: str, destination: str, key: str = "", **arguments: Any) -> dict[str, Any]:
    return {
        "source": source,
        "destination": destination,
        "destination_type": "queue",
        "routing_key": key,
        "arguments": arguments,
    }


def test_a_document_may_bind_existing_objects():
    broker = Broker()
    broker.queue("q")
    broker.exchange("x", "topic")

    document = {"bindings": [a_binding("x", "q", "#"), a_binding("amq.fanout", "q")]}
    answer = broker.answer(commands.ImportDefinitions(definitions=document))

    assert answer == {"imported": 2, "skipped": []}
    broker.publish("x", "any", "m1")
    assert broker.depth("q") == 1


@pytest.mark.parametrize(
    "binding",
    [
        a_binding("none", "q"),
        a_binding("x", "none"),
        a_binding("x", "q", ".".join("#" * 11)),
        a_binding("amq.headers", "q", **{"x-match": "some"}),
    ],
)
def test_a_document_with_an_impossible_binding_is_refused(binding):
    broker = Broker()
    broker.queue("q")
    broker.exchange("x", "topic")
    document = {"queues": [{"name": "new"}], "bindings": [a_binding("x", "q"), binding]}

    refusal = broker.refusal(commands.ImportDefinitions(definitions=document))

    assert refusal is not None
    assert refusal.code == 406
    assert set(broker.shard.vhost.queues) == {"q"}


def test_objects_of_other_vhosts_are_not_imported():
    broker = Broker(vhost="mine")

    answer = broker.answer(an_import(vhosts=[{"name": "/"}]))

    assert isinstance(answer, dict)
    assert answer["imported"] == 0
    assert broker.shard.vhost.queues == {}


def test_the_policies_of_a_document_apply_together():
    """A policy's length limit drops nothing if a later policy of the document replaces it."""
    broker = Broker()
    broker.queue("q")
    for number in range(3):
        broker.publish("", "q", f"m{number}")

    broker.do(
        an_import(
            queues=[],
            bindings=[],
            parameters=[],
            policies=[
                {"vhost": "/", "name": "low", "pattern": "q", "definition": {"max-length": 1}},
                {
                    "vhost": "/",
                    "name": "high",
                    "pattern": "q",
                    "priority": 1,
                    "definition": {"max-length": 2},
                },
            ],
        )
    )

    assert broker.shard.state.queues.named("q").ready == 2


def test_a_document_with_very_many_faults_is_refused_in_a_short_answer():
    """The refusal is in an event: a small packed document must not make it gigabytes long."""
    broker = Broker()

    answer = broker.answer(commands.ImportDefinitions(definitions={"queues": [1] * 100_000}))

    assert isinstance(answer, Refusal)
    assert "queues[0]: expected an object" in answer.text
    assert len(answer.text) < 100_000


def test_an_import_answers_the_number_of_unsupported_items_if_they_are_many():
    broker = Broker()
    parameters = [{"component": "shovel", "name": "s", "vhost": "/", "value": {}}] * 100_000

    answer = broker.answer(commands.ImportDefinitions(definitions={"parameters": parameters}))

    assert isinstance(answer, dict)
    assert len(answer["skipped"]) == 1_001
    assert answer["skipped"][-1] == "document: 99,000 more are skipped"


def test_an_exclusive_queue_is_skipped_because_no_channel_would_own_it():
    broker = Broker()
    binding = {"source": "amq.topic", "destination": "mine", "routing_key": "k"}

    answer = broker.answer(
        commands.ImportDefinitions(
            definitions={"queues": [{"name": "mine", "exclusive": True}], "bindings": [binding]}
        )
    )

    assert isinstance(answer, dict)
    assert answer["imported"] == 0
    assert len(answer["skipped"]) == 2
    assert broker.shard.vhost.queues == {}
