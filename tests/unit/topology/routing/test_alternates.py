"""Alternate exchanges of exchanges."""

from tests.unit.topology.routing.routers import a_router, reached
from topology.declarations import Binding, Exchange
from topology.routing.router import Route


def test_an_alternate_exchange_takes_messages_without_a_matching_binding():
    """R-AE-1."""
    router = a_router(
        [("x", "direct"), ("ae", "fanout")],
        ["q", "rest"],
        [("x", "q", "k"), ("ae", "rest", "")],
        [("x", "ae")],
    )

    assert reached(router, "x", "k") == ("q",)
    assert reached(router, "x", "other") == ("rest",)


def test_the_alternate_is_used_only_if_no_key_matches():
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


def test_the_exchanges_on_a_route_are_those_reached_by_bindings_and_alternates():
    router = a_router(
        [("x", "direct"), ("y", "direct"), ("z", "fanout")],
        ["q"],
        [("z", "q", "")],
        [("x", "y"), ("y", "z")],
    )

    assert router.exchanges_reached("x", ("k",)) == ["x", "y", "z"]
    assert router.exchanges_reached("", ("q",)) == [""]


def test_a_message_in_a_cycle_of_alternates_is_unroutable():
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


def test_an_alternate_can_be_set_and_removed():
    """R-AE-5: the caller decides which value is effective."""
    router = a_router([("x", "direct")], ["q"])
    router.declare_exchange(Exchange("ae", "fanout"))
    router.bind(Binding("ae", "q"))
    assert router.alternate_of("x") is None

    router.set_alternate("x", "ae")
    assert (router.alternate_of("x"), reached(router, "x", "k")) == ("ae", ("q",))
    router.set_alternate("x", None)
    router.set_alternate("x", None)
    assert (router.alternate_of("x"), reached(router, "x", "k")) == (None, ())


def test_a_bound_exchange_that_routes_nowhere_prevents_the_alternate():
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
