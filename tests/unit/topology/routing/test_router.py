"""Routing over exchanges, also after changes of the topology."""

from typing import Any

import pytest

from tests.unit.topology.routing.routers import a_router, reached
from topology.declarations import PREDECLARED, Binding, Exchange
from topology.routing import router as router_module
from topology.routing.router import Route, Router


def test_a_new_router_has_the_exchanges_of_every_vhost():
    """R-DEF-2."""
    router = Router()

    assert list(router.exchanges.values()) == list(PREDECLARED)
    assert router.queues == {}
    assert router.bindings.all() == []


def test_the_default_exchange_routes_to_the_queue_of_that_name():
    """R-ROUTE-1, R-CC-3."""
    router = a_router(queues=["b", "a"])

    assert router.route("", ("b", "a", "ghost", "b"), None) == Route(("a", "b"))
    assert router.route("", ("ghost",), None) == Route()


def test_an_unknown_exchange_routes_to_no_queue():
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


def test_bindings_are_listed_in_order_by_source_and_by_destination():
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
    assert router.bindings.all() == [*ordered, back]
    assert router.bindings.from_exchange("a") == ordered
    assert router.bindings.to(("queue", "q")) == [to_q]
    assert router.bindings.to(("exchange", "b")) == [to_exchange]
    assert router.bindings.of_exchange("b") == [to_exchange, back]
    assert router.bindings.of_exchange("ghost") == []
    assert [router.bindings.any_from(name) for name in ("a", "b", "ghost")] == [True, True, False]
    counts = [router.bindings.count_from(name) for name in ("a", "b", "ghost")]
    assert counts == [len(ordered), 1, 0]


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
    assert router.bindings.all() == [Binding("z", "q")]
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
    assert not router.bindings.any_from("x")


def test_thousands_of_bindings_can_be_changed_one_by_one():
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
    assert router.bindings.all() == []


def test_a_remembered_route_is_forgotten_when_anything_changes():
    router = Router()
    routes = []

    def note() -> None:
        route = router.route("x", ("k",))
        routes.append((route.queues, route.missing_alternates))
        assert router.route("x", ("k",)) is route

    note()
    router.declare_exchange(Exchange("x", "direct"), "gone")
    note()
    router.declare_queue("q")
    binding = Binding("x", "q", routing_key="k")
    router.bind(binding)
    note()
    router.unbind(binding)
    note()
    router.set_alternate("x", None)
    note()
    router.bind(binding)
    router.delete_queue("q")
    note()
    router.declare_queue("q")
    router.bind(binding)
    note()
    router.delete_exchange("x")
    note()

    nowhere = ((), ())
    assert routes == [
        nowhere,
        ((), (("x", "gone"),)),
        (("q",), ()),
        ((), (("x", "gone"),)),
        nowhere,
        nowhere,
        (("q",), ()),
        nowhere,
    ]


def test_a_router_remembers_a_limited_number_of_routes(monkeypatch):
    monkeypatch.setattr(router_module, "MAX_KNOWN", 2)
    router = Router()
    router.declare_queue("q")

    for _ in range(2):
        assert [router.route("", (key,)).queues for key in ("a", "q", "b")] == [(), ("q",), ()]
