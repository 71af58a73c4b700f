"""Definitions documents: valid ones round-trip, others never cause a crash."""

import json
import string

from hypothesis import given
from hypothesis import strategies as st

from tests.property.topology.amqp_values import json_values
from topology.declarations import Binding, Definitions, Exchange, Permission, Policy, Queue
from topology.definitions.dump import dump_definitions
from topology.definitions.json_object import Fields, Report
from topology.definitions.load import load_definitions
from topology.definitions.objects import (
    read_binding,
    read_exchange,
    read_operator_policy,
    read_permission,
    read_policy,
    read_queue,
)
from topology.errors import InvalidTopologyError
from topology.routing.exchanges import EXCHANGE_TYPES
from topology.validation.problems import find_problems

names = st.text(string.ascii_lowercase, min_size=1, max_size=3)
flags = st.booleans()
limits = st.sampled_from(["message-ttl", "max-length", "max-length-bytes"])
amounts = st.integers(0, 9)


@st.composite
def sound_definitions(draw):
    exchanges = draw(
        st.dictionaries(
            names, st.builds(Exchange, st.just(""), st.sampled_from(EXCHANGE_TYPES), flags, flags)
        )
    )
    queue_arguments = st.dictionaries(limits.map(lambda key: f"x-{key}"), amounts)
    queues = draw(
        st.dictionaries(
            names,
            st.builds(Queue, st.just(""), flags, flags, st.just(value=False), queue_arguments),
        )
    )
    sources = st.sampled_from([*sorted(exchanges), "amq.topic"])
    policies = st.builds(
        lambda name, definition, priority: Policy(name, "^(?!x).", definition, priority),
        names,
        st.dictionaries(limits, amounts, min_size=1),
        st.integers(-5, 5),
    )
    bindings = st.builds(Binding, sources, sources, st.just("exchange"), names)
    if queues:
        destinations = st.sampled_from(sorted(queues))
        bindings |= st.builds(Binding, sources, destinations, st.just("queue"), names)
    return Definitions(
        exchanges=tuple(Exchange(name, each.type, each.durable, each.auto_delete)
                        for name, each in exchanges.items()),
        queues=tuple(Queue(name, each.durable, each.auto_delete, arguments=each.arguments)
                     for name, each in queues.items()),
        bindings=tuple(draw(st.lists(bindings, max_size=5, unique_by=lambda each: each.key))),
        policies=tuple(draw(st.lists(policies, max_size=3, unique_by=lambda each: each.name))),
        operator_policies=tuple(
            draw(st.lists(policies, max_size=3, unique_by=lambda each: each.name))
        ),
        permissions=tuple(
            draw(
                st.lists(
                    st.builds(Permission, names, names, names, names),
                    max_size=3,
                    unique_by=lambda each: each.user,
                )
            )
        ),
    )  # fmt: skip


def read_or_refused(read, document):
    """The definitions; None if they are refused, with a path and a text for every problem."""
    try:
        return read(document)
    except InvalidTopologyError as error:
        problems = error.problems
    assert problems
    assert all(problem.where and problem.what for problem in problems)
    return None


@given(st.dictionaries(names, sound_definitions(), min_size=1, max_size=3))
def test_valid_definitions_equal_their_loaded_export(vhosts):
    for definitions in vhosts.values():
        assert list(find_problems(definitions)) == []

    written = dump_definitions(vhosts)
    read = load_definitions(json.dumps(written))

    assert read.vhosts == vhosts
    assert read.skipped == ()
    assert dump_definitions(read.vhosts) == written


members = st.sampled_from(
    ["exchanges", "queues", "bindings", "policies", "operator_policies", "permissions",
     "parameters", "vhosts", "users", "global_parameters", "topic_permissions", "odd"]
)  # fmt: skip
fields = st.sampled_from(
    ["name", "vhost", "type", "durable", "arguments", "source", "destination", "routing_key",
     "destination_type", "pattern", "definition", "priority", "apply-to", "user", "configure",
     "write", "read", "component", "value", "tags", "metadata", "default_queue_type", "odd"]
)  # fmt: skip
plausible = st.one_of(
    st.sampled_from(["/", "q", "amq.topic", "topic", "queue", "operator_policy", "("]),
    st.just({}),
    st.dictionaries(
        st.sampled_from(["x-queue-type", "x-max-length", "x-match", "max-length", "pattern",
                         "definition", "alternate-exchange", "x-overflow"]),
        st.one_of(json_values(), st.sampled_from(["quorum", "stream", "", ".*"])),
        max_size=3,
    ),
    json_values(),
)  # fmt: skip
objects = st.one_of(st.dictionaries(fields, plausible, max_size=6), json_values())


@given(st.one_of(
    json_values(),
    st.dictionaries(members, st.one_of(st.lists(objects, max_size=3), json_values()), max_size=5),
))  # fmt: skip
def test_any_document_loads_or_has_problems_with_paths_and_texts(document):
    loaded = read_or_refused(load_definitions, document)

    vhosts = loaded.vhosts if loaded else {}
    assert all(not list(find_problems(definitions)) for definitions in vhosts.values())
    if vhosts:
        written = dump_definitions(vhosts)
        assert dump_definitions(load_definitions(written).vhosts) == written


@given(st.text(max_size=20))
def test_any_text_loads_or_is_refused(text):
    read_or_refused(load_definitions, text)


READERS = [
    read_binding,
    read_exchange,
    read_operator_policy,
    read_permission,
    read_policy,
    read_queue,
]


@given(st.sampled_from(READERS), objects)
def test_any_object_is_a_declaration_or_refused(read, document):
    report = Report()
    fields = Fields(document, "object", report)
    read(fields)

    assert fields.sound == (not report.problems)
    assert all(problem.where.startswith("object") and problem.what for problem in report.problems)
