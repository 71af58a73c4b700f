"""Everything that is found in a document, and what remains usable of one with problems."""

from topology.analysis.lint import lint
from topology.declarations import Binding, Definitions, Exchange, Queue
from topology.definitions.json_object import Report
from topology.definitions.load import declarations_of_client, examine
from topology.definitions.supported_objects import NOTHING_SKIPPED
from topology.errors import Problem
from topology.findings import KINDS


def found_in(**document):
    """The codes and paths of everything but lint."""
    found = examine(document)
    return {(each.code, each.where) for each in (*found.problems, *found.loaded.skipped)}


def test_every_member_of_an_object_with_a_problem_is_checked():
    found = found_in(
        exchanges=[{"name": "x", "internal": 1, "type": 2, "arguments": {"alternate-exchange": 3}}],
        queues=[{"name": "q", "durable": "yes", "arguments": {"x-expires": 0, "mine": 1}}],
        bindings=[{"source": "amq.headers", "destination": "q", "routing_key": 1}],
        policies=[{"name": "p", "pattern": "(", "priority": "high", "definition": {"expires": 0}}],
    )

    assert found == {
        ("wrong-type", "exchanges[0].internal"),
        ("wrong-type", "exchanges[0].type"),
        ("invalid-exchange", "exchanges[0].arguments.alternate-exchange"),
        ("wrong-type", "queues[0].durable"),
        ("invalid-queue", "queues[0].arguments.x-expires"),
        ("unknown-argument", "queues[0].arguments.mine"),
        ("wrong-type", "bindings[0].routing_key"),
        ("wrong-type", "policies[0].priority"),
        ("invalid-policy", "policies[0].pattern"),
        ("invalid-policy", "policies[0].definition.expires"),
    }


def test_an_object_of_an_unknown_vhost_is_checked_too():
    assert found_in(
        vhosts=[{"name": "shop"}],
        queues=[
            {"name": "q", "vhost": "shpo", "arguments": {"x-expires": 0}},
            {"name": "r", "vhost": 1, "durable": 1},
            {"name": "s"},
        ],
        bindings=[{"source": "amq.direct", "vhost": "shpo", "destination": "q"}],
    ) == {
        ("unknown-vhost", "queues[0].vhost"),
        ("invalid-queue", "queues[0].arguments.x-expires"),
        ("wrong-type", "queues[1].vhost"),
        ("wrong-type", "queues[1].durable"),
        ("unknown-vhost", "queues[2].vhost"),
        ("unknown-vhost", "bindings[0].vhost"),
    }


def test_the_objects_without_problems_stay_and_the_others_are_set_aside():
    found = examine(
        {
            "exchanges": [{"name": "x"}, {"name": "y", "type": "topic", "durable": 0}],
            "queues": [{"name": "q"}, {"name": "r", "arguments": {"x-max-length": -1}}],
            "bindings": [
                {"source": "x", "destination": "q"},
                {"source": "x", "destination": "r"},
                {"source": "z", "destination": "q"},
                {"source": "x", "destination": "gone"},
                {"source": "x", "destination": "", "routing_key": "k" * 256},
            ],
            "policies": [{"name": "p", "pattern": "("}, {"name": "", "pattern": "", "x": 1}],
        }
    )

    assert found.loaded.vhosts == {
        "/": Definitions(
            exchanges=(Exchange("x"),), queues=(Queue("q"),), bindings=(Binding("x", "q"),)
        )
    }
    aside = found.loaded.skipped_in("/")
    assert {each.name for each in aside.exchanges} == {"y", "z"}
    assert {each.name for each in aside.queues} == {"r", "gone"}
    assert found.paths == {"/": {"exchange 'x'": "exchanges[0]", "queue 'q'": "queues[0]"}}
    assert found.loaded.skipped_in("other") is NOTHING_SKIPPED


def test_a_parameter_of_an_unknown_component_without_a_name_is_a_problem():
    assert found_in(parameters=[{"component": "shovel", "vhost": "/"}]) == {
        ("missing-member", "parameters[0].name")
    }


def test_what_is_skipped_is_not_called_missing_or_unreachable():
    document = {
        "exchanges": [
            {"name": "later", "type": "x-delayed-message"},
            {"name": "orders", "type": "topic"},
            {"name": "events", "type": "topic"},
        ],
        "queues": [
            {"name": "work", "arguments": {"x-dead-letter-exchange": "later"}},
            {"name": "log", "type": "stream"},
            {"name": "slow"},
        ],
        "bindings": [
            {"source": "orders", "destination": "work", "routing_key": "#"},
            {"source": "events", "destination": "log", "routing_key": "#"},
            {"source": "later", "destination": "slow", "routing_key": "s"},
            {"source": "later", "destination": "work", "routing_key": "s"},
        ],
    }
    loaded = examine(document).loaded

    assert lint(loaded.vhosts["/"], skipped=loaded.skipped_in("/")) == ()
    assert {problem.code for problem in lint(loaded.vhosts["/"])} == {
        "missing-dead-letter-exchange",
        "idle-exchange",
        "unreachable-queue",
    }


def test_a_stand_in_routes_nothing_unless_it_is_followed():
    document = {
        "exchanges": [{"name": "later", "type": "x-random"}, {"name": "amq.mine"}],
        "queues": [{"name": "q"}],
        "bindings": [
            {"source": "later", "destination": "q"},
            {"source": "amq.mine", "destination": "q"},
        ],
    }
    loaded = examine(document).loaded
    definitions, skipped = loaded.vhosts["/"], loaded.skipped_in("/")

    followed = skipped.beside(definitions, follow=True)
    routed = skipped.beside(definitions, follow=False)

    assert {each.source for each in followed.bindings} == {"later", "amq.mine"}
    assert {each.source for each in routed.bindings} == {"amq.mine"}
    assert NOTHING_SKIPPED.beside(definitions, follow=True) is definitions


def test_a_problem_is_equal_to_one_that_reads_alike():
    one = Problem("queues[0]", "is wrong", "wrong-type", "/")

    assert one == Problem("queues[0]", "is wrong")
    assert one != Problem("queues[1]", "is wrong", "wrong-type", "/")
    assert one != "queues[0]: is wrong"
    assert len({one, Problem("queues[0]", "is wrong")}) == 1


def test_a_client_has_one_vhost_which_the_first_named_object_determines():
    report = Report()

    declared = declarations_of_client(
        {
            "vhosts": 3,
            "users": [{}],
            "permissions": [{}],
            "queues": [
                {"name": "a"},
                {"name": "b", "vhost": "shop"},
                {"name": "c", "vhost": "bank"},
                {"name": "amq.d", "vhost": "shop", "exclusive": True},
            ],
        },
        "definitions",
        report,
    )

    assert [queue.name for queue in declared.queues] == ["a", "b", "amq.d"]
    assert report.problems == []
    assert [(each.code, each.where) for each in report.skipped] == [
        ("other-vhost", "definitions.queues[2].vhost")
    ]


def test_every_kind_has_a_severity_and_a_remedy():
    assert {kind.severity for kind in KINDS.values()} == {"error", "skipped", "warning"}
    assert all(kind.remedy for kind in KINDS.values())


def test_the_export_of_a_single_vhost_has_no_unknown_member_and_its_default_queue_type_counts():
    export = {
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": "shop",
        "description": "",
        "default_queue_type": "quorum",
        "limits": [],
        "metadata": {"description": "", "tags": [], "default_queue_type": "quorum"},
        "queues": [{"name": "q", "durable": True, "auto_delete": False, "arguments": {}}],
    }

    found = examine(export)

    assert (found.problems, found.loaded.skipped) == ((), ())
    assert found.loaded.vhosts["/"].queues[0].queue_type == "quorum"
