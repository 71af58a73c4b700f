"""What definitions documents may look like."""

import pytest

from topology.declarations import Binding, Definitions, Exchange, Permission, Policy, Queue
from topology.definitions.load import Loaded, load_definitions
from topology.errors import Problem


def loaded(**members):
    return load_definitions(members)


def test_without_a_list_of_vhosts_they_are_those_that_objects_name():
    found = loaded(queues=[{"name": "a", "vhost": "one"}, {"name": "b"}])

    assert found.vhosts == {
        "/": Definitions(queues=(Queue("b"),)),
        "one": Definitions(queues=(Queue("a"),)),
    }


def test_an_empty_document_is_an_empty_vhost():
    assert load_definitions({}) == Loaded({"/": Definitions()})


def test_operator_policies_may_have_an_array_of_their_own():
    policy = {"name": "cap", "pattern": "", "definition": {"max-length": 1}, "apply-to": "all"}

    assert loaded(operator_policies=[policy]).vhosts["/"] == Definitions(
        operator_policies=(Policy("cap", "", {"max-length": 1}),)
    )


def test_a_policy_of_which_nothing_is_modelled_is_left_out():
    policy = {"name": "p", "pattern": "", "definition": {"novel-key": 1}}

    found = load_definitions({"policies": [policy]})

    assert found.vhosts["/"] == Definitions()
    assert found.left_out == (
        Problem("policies[0].definition.novel-key", "is not modelled"),
        Problem("policies[0]", "nothing of its definition is modelled"),
    )


def test_policies_among_the_parameters_are_policies():
    value = {"pattern": "", "definition": {"max-length": 1}, "extra": 1}
    found = loaded(parameters=[{"component": "policy", "name": "p", "value": value}])

    assert found.vhosts["/"] == Definitions(policies=(Policy("p", "", {"max-length": 1}),))
    assert found.left_out == (Problem("parameters[0].value.extra", "is not a known member"),)


def test_exclusive_queues_and_null_sections_load():
    found = load_definitions({"queues": [{"name": "q", "exclusive": True}], "bindings": None})

    assert found == Loaded({"/": Definitions(queues=(Queue("q", exclusive=True),))})


@pytest.mark.parametrize(
    ("vhost", "queue", "arguments"),
    [
        ({}, {}, {}),
        ({}, {"type": "classic"}, {}),
        ({}, {"type": "quorum"}, {"x-queue-type": "quorum"}),
        ({}, {"type": "rabbit_quorum_queue"}, {"x-queue-type": "quorum"}),
        ({"default_queue_type": "quorum"}, {}, {"x-queue-type": "quorum"}),
        ({"metadata": {"default_queue_type": "quorum"}}, {}, {"x-queue-type": "quorum"}),
        ({"default_queue_type": "quorum"}, {"type": "classic"}, {}),
        ({"default_queue_type": "undefined"}, {}, {}),
        ({"default_queue_type": 5}, {}, {}),
        (
            {"default_queue_type": "quorum"},
            {"arguments": {"x-queue-type": "classic"}},
            {"x-queue-type": "classic"},
        ),
    ],
)
def test_a_queue_is_of_the_type_it_says_or_its_vhosts_default(vhost, queue, arguments):
    found = loaded(vhosts=[{"name": "/", **vhost}], queues=[{"name": "q", **queue}])

    assert found == Loaded({"/": Definitions(queues=(Queue("q", arguments=arguments),))})


def test_what_has_no_effect_is_named_and_mostly_kept():
    found = loaded(
        exchanges=[
            {"name": ""},
            {"name": "amq.topic", "type": "topic"},
            {"name": "amq.mine"},
            {"name": "typo", "type": "topci"},
            {"name": "x", "arguments": {"alternate_exchange": "y"}, "polcy": 1},
        ],
        queues=[
            {"name": "q", "arguments": {"x-mesage-ttl": 1, "x-single-active-consumer": True}},
            {"name": "typo", "type": "quorom"},
        ],
        bindings=[
            {"source": "", "destination": "q", "routing_key": "q"},
            {"source": "x", "destination": "amq.mine", "destination_type": "exchange"},
        ],
        policy=[],
        somthing_else=1,
    )

    assert found == Loaded(
        {
            "/": Definitions(
                exchanges=(Exchange("x", arguments={"alternate_exchange": "y"}),),
                queues=(
                    Queue("q", arguments={"x-mesage-ttl": 1, "x-single-active-consumer": True}),
                ),
            )
        },
        (
            Problem("exchanges[0]", "every vhost has the exchange ''"),
            Problem("exchanges[1]", "every vhost has the exchange 'amq.topic'"),
            Problem("exchanges[2]", "'amq.mine' is a name of the broker's own"),
            Problem(
                "exchanges[3].type",
                "exchange type 'topci' is not modelled (did you mean 'topic'?)",
            ),
            Problem(
                "exchanges[4].arguments.alternate_exchange",
                "is no argument that has an effect (did you mean 'alternate-exchange'?)",
            ),
            Problem("exchanges[4].polcy", "is not a known member"),
            Problem(
                "queues[0].arguments.x-mesage-ttl",
                "is no argument that has an effect (did you mean 'x-message-ttl'?)",
            ),
            Problem(
                "queues[0].arguments.x-single-active-consumer",
                "single active consumers are not modelled",
            ),
            Problem("queues[1]", "queue type 'quorom' is not modelled (did you mean 'quorum'?)"),
            Problem("bindings[0]", "the default exchange's bindings are implicit"),
            Problem("policy", "is not a known member (did you mean 'policies'?)"),
            Problem("somthing_else", "is not a known member"),
            Problem("bindings[1]", "the exchange 'amq.mine' was left out"),
        ),
    )


def test_what_stands_there_twice_alike_is_taken_once():
    queue = {"name": "q"}
    binding = {"source": "amq.topic", "destination": "q", "routing_key": "k"}
    permission = {"user": "app", "configure": "", "write": "", "read": ""}
    found = loaded(
        queues=[queue, queue],
        bindings=[binding, {**binding, "routing_key": ""}, binding],
        permissions=[permission, permission],
    )

    assert found == Loaded(
        {
            "/": Definitions(
                queues=(Queue("q"),),
                bindings=(
                    Binding("amq.topic", "q", "queue", "k"),
                    Binding("amq.topic", "q", "queue", ""),
                ),
                permissions=(Permission("app", "", "", ""),),
            )
        },
        (
            Problem("queues[1]", "repeats queues[0]"),
            Problem("bindings[2]", "repeats bindings[0]"),
            Problem("permissions[1]", "repeats permissions[0]"),
        ),
    )
