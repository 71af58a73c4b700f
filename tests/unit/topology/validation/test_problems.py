"""All problems of one vhost, with their paths."""

from typing import Any

from topology.declarations import (
    Binding,
    Definitions,
    Exchange,
    Permission,
    Policy,
    Queue,
)
from topology.errors import Problem
from topology.validation.problems import find_problems

QUORUM: dict[str, Any] = {"x-queue-type": "quorum"}
ANY: dict[str, Any] = {"max-length": 1}


def problems_of(definitions, compat="4.0", **arguments):
    return tuple(find_problems(definitions, compat, **arguments))


def test_sound_definitions_have_no_problems():
    definitions = Definitions(
        exchanges=(Exchange("x", "topic"), Exchange("y", "headers")),
        queues=(Queue("q"), Queue("r", arguments=QUORUM)),
        bindings=(
            Binding("x", "q", routing_key="#"),
            Binding("x", "y", "exchange"),
            Binding("amq.topic", "r", routing_key="a.#.#"),
            Binding("x", "r", arguments={"x-match": "of no interest here"}),
            Binding("y", "r", routing_key=".".join("#" * 11)),
        ),
        policies=(Policy("p", "^(?!amq)", {"max-length": 1}),),
        operator_policies=(Policy("p", "", {"max-length": 1}),),
        permissions=(Permission("app", "", ".*", ".*"),),
    )

    assert problems_of(definitions) == ()


def test_problems_of_exchanges():
    exchanges = (
        Exchange("a", "topci"),
        Exchange("b", "wildly-different"),
        Exchange("amq.mine"),
        Exchange(""),
        Exchange("e" * 256),
        Exchange("f", arguments={"alternate-exchange": 1}),
    )

    assert problems_of(Definitions(exchanges=exchanges)) == (
        Problem("exchanges[0].type", "no exchange type is named 'topci' (did you mean 'topic'?)"),
        Problem("exchanges[1].type", "no exchange type is named 'wildly-different'"),
        Problem("exchanges[2].name", "'amq.mine' begins with the reserved 'amq.'"),
        Problem("exchanges[3].name", "must not be empty"),
        Problem("exchanges[4].name", "has 256 bytes, more than 255"),
        Problem("exchanges[5].arguments.alternate-exchange", "expected a string, got an integer"),
    )


def test_problems_of_queues():
    queues = (
        Queue(
            "a",
            arguments={
                "x-expires": 0,
                "x-message-ttl": 315_360_000_001,
                "x-max-length": "1",
                "x-max-length-bytes": -1,
                "x-max-priority": 256,
                "x-overflow": "drop",
                "x-dead-letter-routing-key": "k",
                "x-delivery-limit": 1,
            },
        ),
        Queue("b", arguments={"x-queue-type": "quorom", "x-max-length": -1}),
        Queue("c", durable=False, auto_delete=True, exclusive=True, arguments=QUORUM),
        Queue("amq.d"),
    )

    assert problems_of(Definitions(queues=queues)) == (
        Problem("queues[0].arguments.x-expires", "must not be zero"),
        Problem(
            "queues[0].arguments.x-message-ttl",
            "must be at most 315360000000 ms (ten years), but is 315360000001",
        ),
        Problem(
            "queues[0].arguments.x-dead-letter-routing-key",
            "needs x-dead-letter-exchange beside it",
        ),
        Problem("queues[0].arguments.x-max-length", "expected an integer, got a string"),
        Problem("queues[0].arguments.x-max-length-bytes", "must not be negative, but is -1"),
        Problem("queues[0].arguments.x-max-priority", "must be at most 255, but is 256"),
        Problem(
            "queues[0].arguments.x-overflow",
            "expected one of drop-head, reject-publish, reject-publish-dlx, got 'drop'",
        ),
        Problem("queues[0].arguments.x-delivery-limit", "is not an argument of classic queues"),
        Problem(
            "queues[1].arguments.x-queue-type",
            "expected one of classic, quorum, got 'quorom' (did you mean 'quorum'?)",
        ),
        Problem("queues[2].auto_delete", "a quorum queue cannot be auto-delete"),
        Problem("queues[2].exclusive", "a quorum queue cannot be exclusive"),
        Problem("queues[2].durable", "a quorum queue cannot be transient"),
        Problem("queues[3].name", "'amq.d' begins with the reserved 'amq.'"),
    )


def test_problems_of_bindings():
    definitions = Definitions(
        exchanges=(Exchange("orders", "topic"), Exchange("h", "headers")),
        queues=(Queue("work"),),
        bindings=(
            Binding("order", "wrok"),
            Binding("orders", "h"),
            Binding("orders", "work", "exchange"),
            Binding("", "work"),
            Binding("orders", "", "exchange"),
            Binding("h", "work", arguments={"x-match": "some"}),
            Binding("orders", "work", routing_key=".".join("#" * 11)),
            Binding("orders", "work", routing_key="k" * 256),
            Binding("orders", "unlike"),
        ),
    )

    assert problems_of(definitions) == (
        Problem("bindings[0].source", "no exchange is named 'order' (did you mean 'orders'?)"),
        Problem("bindings[0].destination", "no queue is named 'wrok' (did you mean 'work'?)"),
        Problem("bindings[1].destination", "no queue is named 'h'"),
        Problem("bindings[2].destination", "no exchange is named 'work'"),
        Problem("bindings[3].source", "the default exchange cannot be bound"),
        Problem("bindings[4].destination", "the default exchange cannot be bound"),
        Problem(
            "bindings[5].arguments.x-match",
            "must be one of all, any, all-with-x, any-with-x, not 'some'",
        ),
        Problem(
            "bindings[6].routing_key",
            "binding key '#.#.#.#.#.#.#.#.#.#.#' has 11 '#', more than 10",
        ),
        Problem("bindings[7].routing_key", "has 256 bytes, more than 255"),
        Problem("bindings[8].destination", "no queue is named 'unlike'"),
    )


def test_problems_of_policies_and_permissions():
    definitions = Definitions(
        policies=(
            Policy("a", "(", {"max-lenght": 1, "expires": 0}, apply_to="queue"),
            Policy("b", "", {"unlike-anything": 1}, apply_to="nothing at all"),
        ),
        operator_policies=(Policy("a", "", {"dead-letter-exchange": "x"}),),
        permissions=(Permission("app", "[", ".*", ")"),),
    )
    apply_to = "must be one of all, exchanges, queues, classic_queues, quorum_queues, streams"

    assert problems_of(definitions) == (
        Problem(
            "policies[0].pattern",
            "pattern '(' is not a valid regular expression (missing ): ()",
        ),
        Problem("policies[0].apply-to", f"{apply_to}, not 'queue' (did you mean 'queues'?)"),
        Problem(
            "policies[0].definition.max-lenght",
            "is not a key of a policy (did you mean 'max-length'?)",
        ),
        Problem("policies[0].definition.expires", "must not be zero"),
        Problem("policies[1].apply-to", f"{apply_to}, not 'nothing at all'"),
        Problem("policies[1].definition.unlike-anything", "is not a key of a policy"),
        Problem(
            "operator_policies[0].definition.dead-letter-exchange",
            "is not a key of an operator policy",
        ),
        Problem(
            "permissions[0].configure",
            "pattern '[' is not a valid regular expression (missing ]: [)",
        ),
        Problem(
            "permissions[0].read",
            "pattern ')' is not a valid regular expression (unexpected ): ))",
        ),
    )


def test_a_policy_that_sets_nothing_is_a_problem():
    """RabbitMQ 3.10.8 and 4.0.5 refuse it in `set_policy`, over HTTP and in definitions."""
    definitions = Definitions(
        policies=(Policy("p", "", {}),), operator_policies=(Policy("p", "", {}),)
    )

    assert problems_of(definitions) == (
        Problem("policies[0].definition", "must have at least one key"),
        Problem("operator_policies[0].definition", "must have at least one key"),
    )


def test_two_different_declarations_of_one_name_are_a_problem():
    definitions = Definitions(
        exchanges=(Exchange("x"), Exchange("x"), Exchange("x", "topic")),
        queues=(Queue("x"), Queue("x", durable=False)),
        policies=(Policy("p", "", ANY), Policy("p", "a", ANY)),
        operator_policies=(Policy("p", "", ANY), Policy("p", "", ANY)),
        permissions=(Permission("a", "", "", ""), Permission("a", ".*", "", "")),
    )

    assert problems_of(definitions) == (
        Problem("exchanges[2]", "'x' is declared differently at exchanges[0]"),
        Problem("queues[1]", "'x' is declared differently at queues[0]"),
        Problem("policies[1]", "'p' is declared differently at policies[0]"),
        Problem("permissions[1]", "'a' is declared differently at permissions[0]"),
    )


def test_problems_can_use_given_paths_and_known_names():
    definitions = Definitions(bindings=(Binding("x", "q"), Binding("x", "r")))

    assert problems_of(
        definitions,
        locate=lambda member, index: f"{member} no. {index + 1}",
        also_known=[("exchange", "x"), ("queue", "q")],
    ) == (Problem("bindings no. 2.destination", "no queue is named 'r'"),)


def test_limits_depend_on_the_version():
    arguments: dict[str, Any] = {**QUORUM, "x-delivery-limit": -1}
    definitions = Definitions(
        queues=(Queue("q", arguments=arguments),),
        operator_policies=(Policy("p", "", {"delivery-limit": -1}),),
    )

    assert problems_of(definitions) == ()
    assert problems_of(definitions, "3.10") == (
        Problem("queues[0].arguments.x-delivery-limit", "must not be negative, but is -1"),
        Problem(
            "operator_policies[0].definition.delivery-limit", "must not be negative, but is -1"
        ),
    )


def test_an_exchange_argument_of_the_wrong_type_is_one_problem():
    arguments: dict[str, Any] = {"x-dead-letter-exchange": 1, "x-alternate-exchange": True}

    problems = problems_of(Definitions(queues=(Queue("q", arguments=arguments),)))

    assert [problem.where for problem in problems] == [
        "queues[0].arguments.x-dead-letter-exchange",
        "queues[0].arguments.x-alternate-exchange",
    ]


def test_a_priority_is_a_64_bit_integer():
    policies = tuple(Policy(f"p{n}", "", ANY, 2**63 - n) for n in range(2))

    problems = problems_of(Definitions(policies=policies))

    assert [problem.where for problem in problems] == ["policies[0].priority"]
