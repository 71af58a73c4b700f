"""The possible destinations of a partly known message."""

from topology.analysis.reachability import Reach
from topology.declarations import Binding, Definitions, Exchange, Queue
from topology.values import Table
from topology.vhost import Vhost


def a_reach(exchanges, bindings, queues=("a", "b", "c")):
    definitions = Definitions(
        tuple(exchanges), tuple(Queue(name) for name in queues), tuple(bindings)
    )
    return Reach(Vhost.from_definitions(definitions))


def test_a_known_key_reaches_the_routers_queues():
    bindings = [Binding("x", "a", routing_key="k.*"), Binding("x", "b", routing_key="other")]

    reach = a_reach([Exchange("x", "topic")], bindings)

    assert reach.from_exchange("x", "k.1") == ("a",)
    assert reach.from_exchange("x", "k") == ()


def test_an_unknown_key_reaches_everything_behind_the_exchange():
    bindings = [Binding("x", "a", routing_key="k"), Binding("x", "y", "exchange", "l")]
    bindings += [Binding("y", "b"), Binding("y", "x", "exchange")]

    reach = a_reach([Exchange("x"), Exchange("y", "fanout")], bindings)

    assert reach.from_exchange("x", None) == ("a", "b")


def test_the_default_exchange_reaches_the_queue_of_that_name_or_any():
    reach = a_reach([], [])

    assert reach.from_exchange("", "b") == ("b",)
    assert reach.from_exchange("", "z") == ()
    assert reach.from_exchange("", None) == ("a", "b", "c")


def test_a_missing_exchange_reaches_nothing():
    assert a_reach([], []).from_exchange("x", None) == ()
    assert a_reach([], []).from_exchange("x", "k") == ()


def test_an_alternate_exchange_is_reachable_unless_a_binding_matches_everything():
    else_y: Table = {"alternate-exchange": "y"}
    exchanges = [
        Exchange("keyed", "direct", arguments=else_y),
        Exchange("all", "topic", arguments=else_y),
        Exchange("some", "topic", arguments=else_y),
        Exchange("fan", "fanout", arguments=else_y),
        Exchange("empty", "fanout", arguments=else_y),
        Exchange("y", "fanout"),
    ]
    bindings = [Binding(name, "a") for name in ("keyed", "some", "fan")]
    bindings += [Binding("all", "a", routing_key="#"), Binding("y", "b")]

    reach = a_reach(exchanges, bindings)

    assert {name.name: reach.from_exchange(name.name, None) for name in exchanges} == {
        "keyed": ("a", "b"),
        "all": ("a",),
        "some": ("a", "b"),
        "fan": ("a",),
        "empty": ("b",),
        "y": ("b",),
    }


def test_alternates_that_are_missing_or_the_default_exchange_reach_nothing():
    exchanges = [
        Exchange("x", arguments={"alternate-exchange": "nowhere"}),
        Exchange("y", arguments={"alternate-exchange": ""}),
    ]

    reach = a_reach(exchanges, [])

    assert (reach.from_exchange("x", None), reach.from_exchange("y", None)) == ((), ())


def test_a_headers_exchange_reaches_all_its_queues():
    bindings = [Binding("x", "a", arguments={"colour": "red"})]

    assert a_reach([Exchange("x", "headers")], bindings).from_exchange("x", "k") == ("a",)


def test_keys_of_arrivals_are_known_only_from_literal_bindings():
    exchanges = [Exchange("d", "direct"), Exchange("t", "topic"), Exchange("f", "fanout")]
    bindings = [
        Binding("d", "a", routing_key="*"),
        Binding("t", "a", routing_key="x.y"),
        Binding("t", "b", routing_key="x.*"),
        Binding("d", "b", routing_key="k"),
        Binding("f", "c", routing_key="k"),
    ]

    reach = a_reach(exchanges, bindings)

    assert [reach.arrival_keys(queue) for queue in ("a", "b", "c")] == [
        ["*", "x.y"],
        [None, "k"],
        [None],
    ]
    assert reach.arrival_keys("unbound") == []
