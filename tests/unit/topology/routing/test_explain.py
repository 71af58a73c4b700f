"""The explained route of a message to its queues."""

from tests.unit.topology.routing.routers import a_router, reached
from topology.declarations import Binding
from topology.routing.router import Hop


def test_explain_shows_the_route_to_each_queue():
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


def test_explain_names_missing_exchanges_and_the_default_exchange():
    router = a_router([("x", "direct")], ["b", "a"], alternates=[("x", "ghost")])

    assert router.explain("x", ("k",)) == [
        Hop("x", "ghost", "exchange", "missing alternate exchange")
    ]
    assert router.explain("", ("b", "a", "ghost", "b")) == [
        Hop("", "a", "queue", "default exchange"),
        Hop("", "b", "queue", "default exchange"),
    ]
    assert router.explain("ghost", ("k",)) == []
