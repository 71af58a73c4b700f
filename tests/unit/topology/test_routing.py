"""The walk over exchanges: bindings between exchanges, alternates, and what changes do to it."""

import pickle
from typing import Any

import pytest

from topology.declarations import PREDECLARED, Binding, Exchange
from topology.routing import Hop, Route, Router


def a_router(exchanges=(), queues=(), bindings=(), alternates=(), compat="4.0"):
    """A router from short forms: exchange (name, type), binding (source, destination, key)."""
    router = Router(compat)
    for name, exchange_type in exchanges:
        router.declare_exchange(Exchange(name, exchange_type))
    for name in queues:
        router.declare_queue(name)
    for source, destination, key in bindings:
        assert router.bind(bound(source, destination, key, router))
    for name, alternate in alternates:
        router.set_alternate(name, alternate)
    return router


def bound(source, destination, key, router):
    if destination in router.queues:
        return Binding(source, destination, "queue", key)
    return Binding(source, destination, "exchange", key)


def reached(router, exchange, *keys, headers=None):
    return router.route(exchange, keys, headers).queues


def test_a_new_router_has_the_exchanges_of_every_vhost():
    """R-DEF-2."""
    router = Router()

    assert list(router.exchanges.values()) == list(PREDECLARED)
    assert router.queues == {}
    assert router.bindings() == []


def test_the_default_exchange_names_queues_by_key():
    """R-ROUTE-1, R-CC-3."""
    router = a_router(queues=["b", "a"])

    assert router.route("", ("b", "a", "ghost", "b"), None) == Route(("a", "b"))
    assert router.route("", ("ghost",), None) == Route()


def test_an_unknown_exchange_routes_nowhere():
    assert Router().route("ghost", ("k",), None) == Route()


@pytest.mark.parametrize(
    ("name", "key", "headers"),
    [
        ("amq.direct", "k", None),
        ("amq.fanout", "", None),
        ("amq.topic", "k", None),
        ("amq.headers", "", {"h": 1}),
        ("amq.match", "", {"h": 1}),
    ],
)
def test_the_predeclared_exchanges_can_be_bound(name, key, headers):
    router = a_router(queues=["q"])
    router.bind(Binding(name, "q", routing_key="k", arguments={"h": 1}))

    assert reached(router, name, key, headers=headers) == ("q",)


def test_a_queue_reached_in_several_ways_gets_one_copy():
    """R-ROUTE-6."""
    router = a_router(
        [("x", "topic"), ("y", "fanout")],
        ["q"],
        [("x", "q", "a.*"), ("x", "q", "#"), ("x", "y", "#"), ("y", "q", "")],
    )

    assert router.route("x", ("a.b", "a.c"), None) == Route(("q",))


def test_every_exchange_applies_its_own_type_to_the_same_keys():
    """R-ROUTE-7, R-CC-6."""
    router = a_router(
        [("f", "fanout"), ("d", "direct"), ("t", "topic")],
        ["direct", "topic", "fanout"],
        [
            ("f", "d", ""),
            ("f", "t", ""),
            ("f", "fanout", ""),
            ("d", "direct", "cc"),
            ("t", "topic", "k.#"),
        ],
    )

    assert reached(router, "f", "other") == ("fanout",)
    assert reached(router, "f", "k.1", "cc") == ("direct", "fanout", "topic")


def test_cycles_of_bindings_end():
    """R-ROUTE-7."""
    router = a_router(
        [("a", "fanout"), ("b", "fanout")],
        ["q"],
        [("a", "a", ""), ("a", "b", ""), ("b", "a", ""), ("b", "q", "")],
    )

    assert reached(router, "a", "") == ("q",)
    assert reached(router, "b", "") == ("q",)


def test_only_routes_without_headers_exchanges_depend_on_keys_alone():
    router = a_router(
        [("x", "fanout"), ("h", "headers"), ("alone", "headers"), ("y", "fanout")],
        ["q"],
        [("x", "h", ""), ("x", "q", ""), ("alone", "q", ""), ("y", "q", "")],
    )

    assert router.route("x", ("",), None) == Route(("q",), (), keyed_only=False)
    assert router.route("alone", ("",), None) == Route(("q",), (), keyed_only=False)
    assert router.route("h", ("",), None) == Route((), (), keyed_only=False)
    assert router.route("y", ("",), None) == Route(("q",), (), keyed_only=True)


def test_an_alternate_exchange_takes_what_matches_nothing():
    """R-AE-1."""
    router = a_router(
        [("x", "direct"), ("ae", "fanout")],
        ["q", "rest"],
        [("x", "q", "k"), ("ae", "rest", "")],
        [("x", "ae")],
    )

    assert reached(router, "x", "k") == ("q",)
    assert reached(router, "x", "other") == ("rest",)


def test_one_matching_key_keeps_the_alternate_out_and_all_keys_go_to_it_otherwise():
    """R-AE-6."""
    router = a_router(
        [("x", "direct"), ("ae", "direct")],
        ["q", "r", "s"],
        [("x", "q", "k"), ("ae", "r", "k1"), ("ae", "s", "k2")],
        [("x", "ae")],
    )

    assert reached(router, "x", "k1", "k") == ("q",)
    assert reached(router, "x", "k1", "k2") == ("r", "s")


def test_alternates_form_chains():
    """R-AE-2."""
    router = a_router(
        [("x", "direct"), ("y", "direct"), ("z", "fanout")],
        ["q"],
        [("z", "q", "")],
        [("x", "y"), ("y", "z")],
    )

    assert reached(router, "x", "k") == ("q",)


def test_of_a_chain_only_the_first_alternate_counts_if_asked_so():
    """R-QPID-4."""
    router = a_router(
        [("x", "direct"), ("y", "direct"), ("z", "fanout")],
        ["q"],
        [("z", "q", "")],
        [("x", "y"), ("y", "z")],
    )

    assert router.route("x", ("k",), None, one_alternate=True) == Route()
    assert router.route("y", ("k",), None, one_alternate=True) == Route(("q",))


def test_rings_of_alternates_end_unroutable():
    """R-AE-3."""
    router = a_router(
        [("x", "direct"), ("y", "direct")], alternates=[("x", "y"), ("y", "x"), ("amq.topic", "x")]
    )
    router.set_alternate("amq.direct", "amq.direct")

    assert router.route("amq.topic", ("k",), None) == Route()
    assert router.route("amq.direct", ("k",), None) == Route()


def test_a_missing_alternate_is_named_until_it_exists():
    """R-AE-4."""
    router = a_router([("x", "direct")], ["q"], alternates=[("x", "ghost")])
    assert router.route("x", ("k",), None) == Route((), (("x", "ghost"),))

    router.declare_exchange(Exchange("ghost", "fanout"))
    router.bind(Binding("ghost", "q"))
    assert router.route("x", ("k",), None) == Route(("q",))

    router.delete_exchange("ghost")
    assert router.route("x", ("k",), None) == Route((), (("x", "ghost"),))


def test_an_alternate_can_be_set_and_taken_away():
    """R-AE-5: the value in force is the caller's business."""
    router = a_router([("x", "direct")], ["q"])
    router.declare_exchange(Exchange("ae", "fanout"))
    router.bind(Binding("ae", "q"))
    assert router.alternate_of("x") is None

    router.set_alternate("x", "ae")
    assert (router.alternate_of("x"), reached(router, "x", "k")) == ("ae", ("q",))
    router.set_alternate("x", None)
    router.set_alternate("x", None)
    assert (router.alternate_of("x"), reached(router, "x", "k")) == (None, ())


def test_an_exchange_destination_keeps_the_alternate_out_although_it_routes_nowhere():
    """R-AE-7."""
    router = a_router(
        [("x", "fanout"), ("inner", "direct"), ("ae", "fanout"), ("inner-ae", "fanout")],
        ["q", "r"],
        [("x", "inner", ""), ("ae", "q", ""), ("inner-ae", "r", "")],
        [("x", "ae")],
    )
    assert reached(router, "x", "k") == ()

    router.set_alternate("inner", "inner-ae")
    assert reached(router, "x", "k") == ("r",)


def test_a_branch_uses_its_alternate_although_another_branch_delivered():
    """R-AE-7."""
    router = a_router(
        [("x", "fanout"), ("inner", "direct"), ("ae", "fanout")],
        ["q", "r"],
        [("x", "q", ""), ("x", "inner", ""), ("ae", "r", "")],
        [("inner", "ae")],
    )

    assert reached(router, "x", "k") == ("q", "r")


def test_the_default_exchange_as_an_alternate_routes_nothing():
    """R-AE-9."""
    router = a_router([("x", "direct")], ["k"], alternates=[("x", "")])

    assert router.route("x", ("k",), None) == Route()


def test_an_exchange_visited_as_a_destination_is_not_visited_as_an_alternate():
    """R-AE-11."""
    router = a_router(
        [("x", "fanout"), ("a", "direct"), ("b", "fanout")],
        ["q"],
        [("x", "a", ""), ("x", "b", ""), ("b", "q", "")],
        [("a", "b")],
    )

    assert router.route("x", ("k",), None) == Route(("q",))


def test_a_repeated_bind_changes_nothing_and_other_arguments_make_another_binding():
    """R-ROUTE-12."""
    router = a_router([("x", "direct")], ["q"])
    plain, other = Binding("x", "q", routing_key="k"), Binding("x", "q", "queue", "k", {"a": 1})

    assert [router.bind(plain), router.bind(plain), router.bind(other)] == [True, False, True]
    assert [router.unbind(plain), router.unbind(plain)] == [True, False]
    assert reached(router, "x", "k") == ("q",)
    assert [router.unbind(other), router.unbind(other)] == [True, False]
    assert reached(router, "x", "k") == ()
    assert router.unbind(Binding("ghost", "q")) is False


def test_bindings_are_listed_in_order_from_every_side():
    router = a_router([("b", "fanout"), ("a", "fanout")], ["q", "p"])
    to_q, to_p = Binding("a", "q"), Binding("a", "p")
    keyed = Binding("a", "p", routing_key="k")
    values: list[Any] = [True, 1, "1", [None], {}]
    with_arguments = [Binding("a", "p", "queue", "k", {"a": value}) for value in values]
    to_exchange, back = Binding("a", "b", "exchange"), Binding("b", "a", "exchange")
    for binding in (back, *reversed(with_arguments), keyed, to_q, to_exchange, to_p):
        router.bind(binding)

    ordered = sorted((*with_arguments, keyed, to_q, to_exchange, to_p), key=lambda each: each.key)
    assert ordered[0] == to_exchange
    assert router.bindings() == [*ordered, back]
    assert router.bindings_from("a") == ordered
    assert router.bindings_to("q") == [to_q]
    assert router.bindings_to("b", "exchange") == [to_exchange]
    assert router.bindings_of("b") == [to_exchange, back]
    assert router.bindings_of("ghost") == []
    assert [router.has_bindings_from(name) for name in ("a", "b", "ghost")] == [True, True, False]


def test_deleting_an_exchange_deletes_its_bindings_on_both_sides():
    """R-ROUTE-11."""
    router = a_router(
        [("x", "fanout"), ("y", "fanout"), ("z", "fanout")],
        ["q"],
        [("x", "y", ""), ("y", "q", ""), ("y", "y", ""), ("z", "q", "")],
        [("y", "z")],
    )

    assert router.delete_exchange("y") == [
        Binding("x", "y", "exchange"),
        Binding("y", "y", "exchange"),
        Binding("y", "q"),
    ]
    assert "y" not in router.exchanges
    assert router.bindings() == [Binding("z", "q")]
    assert reached(router, "x", "") == ()
    router.declare_exchange(Exchange("y", "fanout"))
    assert (router.alternate_of("y"), reached(router, "y", "")) == (None, ())


def test_deleting_a_queue_deletes_the_bindings_to_it():
    """R-ROUTE-11."""
    router = a_router(
        [("x", "topic")], ["q", "r"], [("x", "q", "a"), ("x", "q", "#"), ("x", "r", "a")]
    )

    assert router.delete_queue("q") == [
        Binding("x", "q", routing_key="#"),
        Binding("x", "q", routing_key="a"),
    ]
    assert reached(router, "x", "a") == ("r",)
    router.declare_queue("q")
    router.declare_queue("q")
    assert reached(router, "x", "a") == ("r",)
    assert router.delete_queue("r") == [Binding("x", "r", routing_key="a")]
    assert not router.has_bindings_from("x")


def test_explain_tells_how_each_queue_is_reached():
    router = a_router(
        [("x", "topic"), ("inner", "direct"), ("ae", "fanout")],
        ["q", "r"],
        [
            ("x", "q", "a.*"),
            ("x", "q", "#"),
            ("x", "r", "never"),
            ("x", "inner", "#"),
            ("ae", "r", ""),
            ("ae", "x", ""),
        ],
        [("inner", "ae")],
    )

    assert router.explain("x", ("a.b",)) == [
        Hop("x", "inner", "exchange", "binding", Binding("x", "inner", "exchange", "#")),
        Hop("x", "q", "queue", "binding", Binding("x", "q", "queue", "#")),
        Hop("x", "q", "queue", "binding", Binding("x", "q", "queue", "a.*"), again=True),
        Hop("inner", "ae", "exchange", "alternate exchange"),
        Hop("ae", "x", "exchange", "binding", Binding("ae", "x", "exchange"), again=True),
        Hop("ae", "r", "queue", "binding", Binding("ae", "r", "queue")),
    ]
    assert reached(router, "x", "a.b") == ("q", "r")


def test_explain_names_what_is_missing_and_what_the_default_exchange_does():
    router = a_router([("x", "direct")], ["b", "a"], alternates=[("x", "ghost")])

    assert router.explain("x", ("k",)) == [
        Hop("x", "ghost", "exchange", "missing alternate exchange")
    ]
    assert router.explain("", ("b", "a", "ghost", "b")) == [
        Hop("", "a", "queue", "default exchange"),
        Hop("", "b", "queue", "default exchange"),
    ]
    assert router.explain("ghost", ("k",)) == []


def test_a_router_survives_pickling_with_very_deep_keys():
    router = a_router(
        [("x", "topic"), ("h", "headers"), ("ae", "fanout")],
        ["q", "r"],
        [("x", "q", ".".join(["w"] * 128)), ("ae", "r", "")],
        [("x", "ae")],
        compat="3.10",
    )
    router.bind(Binding("h", "q", arguments={"a": 1}))

    copy = pickle.loads(pickle.dumps(router))  # noqa: S301 - our own bytes

    assert (copy.compat, copy.exchanges, copy.queues) == ("3.10", router.exchanges, router.queues)
    assert copy.bindings() == router.bindings()
    assert reached(copy, "x", ".".join(["w"] * 128)) == ("q",)
    assert reached(copy, "x", "w") == ("r",)
    assert reached(copy, "h", "", headers={"a": 1.0}) == ("q",)
    assert copy.unbind(Binding("ae", "r"))


def test_thousands_of_bindings_are_changed_one_by_one():
    router = a_router([("x", "topic"), ("h", "headers")], [f"q{n}" for n in range(100)])
    bindings = [
        Binding(exchange, f"q{n % 100}", "queue", f"a.{n}.#", {"common": 1, "n": n})
        for n in range(5000)
        for exchange in ("x", "h")
    ]

    assert all(router.bind(binding) for binding in bindings)
    assert reached(router, "x", "a.4321.b") == ("q21",)
    assert reached(router, "h", "", headers={"common": 1, "n": 4321}) == ("q21",)
    assert len(router.delete_queue("q21")) == 100
    assert all(router.unbind(each) for each in bindings if each.destination != "q21")
    assert router.bindings() == []
