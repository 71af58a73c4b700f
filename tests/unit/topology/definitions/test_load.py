"""Valid forms of definitions documents."""

import pytest

from topology.declarations import Binding, Definitions, Exchange, Permission, Policy, Queue
from topology.definitions.load import LoadedDefinitions, load_definitions, part_of
from topology.errors import Problem


def loaded(**members):
    return load_definitions(members)


def test_without_a_list_of_vhosts_those_of_the_objects_are_used():
    found = loaded(queues=[{"name": "a", "vhost": "one"}, {"name": "b"}])

    assert found.vhosts == {
        "/": Definitions(queues=(Queue("b"),)),
        "one": Definitions(queues=(Queue("a"),)),
    }


def test_an_empty_document_is_an_empty_vhost():
    assert load_definitions({}) == LoadedDefinitions({"/": Definitions()})


def test_operator_policies_may_have_an_array_of_their_own():
    policy = {"name": "cap", "pattern": "", "definition": {"max-length": 1}, "apply-to": "all"}

    assert loaded(operator_policies=[policy]).vhosts["/"] == Definitions(
        operator_policies=(Policy("cap", "", {"max-length": 1}),)
    )


def test_a_policy_of_which_nothing_is_modelled_is_skipped():
    policy = {"name": "p", "pattern": "", "definition": {"novel-key": 1}}

    found = load_definitions({"policies": [policy]})

    assert found.vhosts["/"] == Definitions()
    assert found.skipped == (
        Problem(
            "policies[0].definition.novel-key", "is not a known key of policies and has no effect"
        ),
        Problem("policies[0]", "none of its keys is supported"),
    )


def test_policies_among_the_parameters_are_policies():
    value = {"pattern": "", "definition": {"max-length": 1}, "extra": 1}
    found = loaded(parameters=[{"component": "policy", "name": "p", "value": value}])

    assert found.vhosts["/"] == Definitions(policies=(Policy("p", "", {"max-length": 1}),))
    assert found.skipped == (Problem("parameters[0].value.extra", "is not a known member"),)


def test_null_sections_are_empty():
    assert load_definitions({"bindings": None}) == LoadedDefinitions({"/": Definitions()})


def test_exclusive_queues_and_their_bindings_are_skipped():
    """No channel would own them: every later use would be refused with 405."""
    found = loaded(
        queues=[{"name": "mine", "exclusive": True}, {"name": "q"}],
        bindings=[{"source": "amq.topic", "destination": name} for name in ("mine", "q")],
    )

    assert found.vhosts["/"] == Definitions(
        queues=(Queue("q"),), bindings=(Binding("amq.topic", "q"),)
    )
    assert [problem.where for problem in found.skipped] == ["queues[0].exclusive", "bindings[0]"]


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
        ({"default_queue_type": "quorum"}, {"durable": False}, {}),
        ({"default_queue_type": "quorum"}, {"auto_delete": True}, {}),
        (
            {"default_queue_type": "quorum"},
            {"arguments": {"x-queue-type": "classic"}},
            {"x-queue-type": "classic"},
        ),
    ],
)
def test_a_queue_has_its_own_type_or_its_vhosts_default(vhost, queue, arguments):
    found = loaded(vhosts=[{"name": "/", **vhost}], queues=[{"name": "q", **queue}])

    flags = {name: queue[name] for name in ("durable", "auto_delete") if name in queue}
    queues = (Queue("q", arguments=arguments, **flags),)
    assert found.vhosts == {"/": Definitions(queues=queues)}
    assert found.skipped == ()
    default = "quorum" if "quorum" in str(vhost) else "classic"
    assert found.default_queue_types.get("/", "classic") == default


def test_members_without_effect_are_reported_and_mostly_kept():
    found = loaded(
        exchanges=[
            {"name": ""},
            {"name": "amq.topic", "type": "topic"},
            {"name": "amq.mine"},
            {"name": "typo", "type": "topci"},
            {"name": "x", "arguments": {"alternate_exchange": "y"}, "polcy": 1},
        ],
        queues=[
            {"name": "q", "arguments": {"x-mesage-ttl": 1}},
            {"name": "typo", "type": "quorom"},
        ],
        bindings=[
            {"source": "", "destination": "q", "routing_key": "q"},
            {"source": "x", "destination": "amq.mine", "destination_type": "exchange"},
        ],
        policy=[],
        somthing_else=1,
    )

    assert found.vhosts == {
        "/": Definitions(
            exchanges=(Exchange("x", arguments={"alternate_exchange": "y"}),),
            queues=(Queue("q", arguments={"x-mesage-ttl": 1}),),
        )
    }
    assert found.skipped == (
        Problem("exchanges[0]", "exchange '' is predeclared in every vhost"),
        Problem("exchanges[1]", "exchange 'amq.topic' is predeclared in every vhost"),
        Problem("exchanges[2]", "name 'amq.mine' is reserved for the broker"),
        Problem(
            "exchanges[3].type",
            "exchange type 'topci' is not supported (did you mean 'topic'?)",
        ),
        Problem(
            "exchanges[4].arguments.alternate_exchange",
            "is an unknown argument and has no effect (did you mean 'alternate-exchange'?)",
        ),
        Problem("exchanges[4].polcy", "is not a known member"),
        Problem(
            "queues[0].arguments.x-mesage-ttl",
            "is an unknown argument and has no effect (did you mean 'x-message-ttl'?)",
        ),
        Problem("queues[1]", "queue type 'quorom' is not supported (did you mean 'quorum'?)"),
        Problem("bindings[0]", "bindings of the default exchange are implicit"),
        Problem("policy", "is not a known member (did you mean 'policies'?)"),
        Problem("somthing_else", "is not a known member"),
        Problem("bindings[1]", "the exchange 'amq.mine' is skipped"),
    )


def test_equal_duplicates_are_loaded_once():
    queue = {"name": "q"}
    binding = {"source": "amq.topic", "destination": "q", "routing_key": "k"}
    permission = {"user": "app", "configure": "", "write": "", "read": ""}
    found = loaded(
        queues=[queue, queue],
        bindings=[binding, {**binding, "routing_key": ""}, binding],
        permissions=[permission, permission],
    )

    assert found == LoadedDefinitions(
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
            Problem("queues[1]", "is a duplicate of queues[0]"),
            Problem("bindings[2]", "is a duplicate of bindings[0]"),
            Problem("permissions[1]", "is a duplicate of permissions[0]"),
        ),
    )


TWO_VHOSTS = {
    "rabbit_version": "4.0.5",
    "vhosts": [{"name": "a"}, {"name": "b"}, "no vhost"],
    "users": [{"name": "u"}],
    "queues": [{"name": "q1", "vhost": "a"}, {"name": "q2", "vhost": "b"}, "no queue"],
}


def test_a_vhost_gets_its_own_objects_and_those_of_no_vhost():
    assert part_of(TWO_VHOSTS, "a", single=False) == {
        "rabbit_version": "4.0.5",
        "users": [{"name": "u"}],
        "queues": [{"name": "q1", "vhost": "a"}, "no queue"],
        "vhosts": [{"name": "a"}],
    }


def test_all_objects_of_a_single_vhosts_document_belong_to_it():
    document = {"queues": [{"name": "q1"}, {"name": "q2", "vhost": "elsewhere"}]}

    assert part_of(document, "a", single=True) == document


def test_a_duplicate_is_found_after_other_bindings():
    bindings = [
        {"source": "amq.topic", "destination": "q", "routing_key": key} for key in ("a", "b", "b")
    ]

    found = loaded(queues=[{"name": "q"}], bindings=bindings)

    assert [each.routing_key for each in found.vhosts["/"].bindings] == ["a", "b"]
    assert [problem.where for problem in found.skipped] == ["bindings[2]"]
