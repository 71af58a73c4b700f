"""Diagrams of topologies."""

import re

from msgspec import structs

from topology.analysis.diagram import Diagram, DiagramEdge, DiagramNode, dot, draw, mermaid
from topology.declarations import PREDECLARED, Binding, Definitions, Exchange, Queue
from topology.definitions.supported_objects import SkippedObjects
from topology.values import Table
from topology.vhost import Vhost

RETRY = Definitions(
    exchanges=(
        Exchange("orders", "topic", arguments={"alternate-exchange": "else"}),
        Exchange("else", "fanout", internal=True),
    ),
    queues=(
        Queue(
            "work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"}
        ),
        Queue(
            "retry",
            arguments={
                "x-message-ttl": 5000,
                "x-dead-letter-exchange": "orders",
                "x-dead-letter-routing-key": "order.again",
            },
        ),
    ),
    bindings=(
        Binding("orders", "work", routing_key="order.#"),
        Binding("orders", "work", routing_key=""),
        Binding("else", "work"),
    ),
)


def test_a_retry_topology_in_mermaid():
    assert mermaid(draw(RETRY)) == (
        "flowchart LR\n"
        '    x0{{"orders<br/>topic exchange"}}\n'
        '    x1{{"else<br/>fanout exchange, internal"}}\n'
        '    q2[("work")]\n'
        '    q3[("retry<br/>message-ttl 5000 ms")]\n'
        "    x1 --> q2\n"
        '    x0 -- "(empty key)<br/>order.#35;" --> q2\n'
        '    x0 == "otherwise" ==> x1\n'
        '    q2 -. "dead letters" .-> q3\n'
        '    q3 -. "dead letters as order.again" .-> x0\n'
    )


def test_a_vhost_that_is_known_gives_the_same_picture():
    whole = structs.replace(RETRY, exchanges=(*PREDECLARED, *RETRY.exchanges))
    known = Vhost.from_definitions(whole)
    assert draw(RETRY, vhost=known) == draw(RETRY)


def test_a_retry_topology_in_dot():
    assert dot(draw(RETRY)) == (
        "digraph topology {\n"
        "    rankdir=LR;\n"
        '    x0 [shape=hexagon, label="orders\\ntopic exchange"];\n'
        '    x1 [shape=hexagon, label="else\\nfanout exchange, internal"];\n'
        '    q2 [shape=cylinder, label="work"];\n'
        '    q3 [shape=cylinder, label="retry\\nmessage-ttl 5000 ms"];\n'
        '    x1 -> q2 [style=solid, label=""];\n'
        '    x0 -> q2 [style=solid, label="(empty key)\\norder.#"];\n'
        '    x0 -> x1 [style=bold, label="otherwise"];\n'
        '    q2 -> q3 [style=dotted, label="dead letters"];\n'
        '    q3 -> x0 [style=dotted, label="dead letters as order.again"];\n'
        "}\n"
    )


def test_undeclared_names_are_drawn_as_missing():
    arguments: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "gone"}
    definitions = Definitions(
        exchanges=(Exchange("x", "fanout", arguments={"alternate-exchange": "nowhere"}),),
        queues=(Queue("q", arguments=arguments),),
    )

    assert draw(definitions) == Diagram(
        nodes=(
            DiagramNode("x0", "exchange", ("x", "fanout exchange")),
            DiagramNode("q1", "queue", ("q",)),
            DiagramNode("x2", "missing", ("nowhere", "no such exchange")),
            DiagramNode("q3", "missing", ("gone", "no such queue")),
        ),
        edges=(
            DiagramEdge("x0", "x2", "otherwise", ("otherwise",)),
            DiagramEdge("q1", "q3", "dead letters", ("dead letters",)),
        ),
    )


def test_predeclared_exchanges_are_drawn_where_something_refers_to_them():
    definitions = Definitions(
        queues=(
            Queue("a", arguments={"x-dead-letter-exchange": ""}),
            Queue("b", arguments={"x-alternate-exchange": "amq.fanout"}),
        ),
        bindings=(
            Binding("amq.headers", "a", arguments={"x-match": "any", "colour": "red", "n": 1}),
            Binding("amq.headers", "b"),
            Binding("amq.direct", "amq.fanout", "exchange", "k"),
        ),
    )

    picture = draw(definitions)

    assert [node.lines[0] for node in picture.nodes] == [
        "a",
        "b",
        "amq.direct",
        "amq.fanout",
        "amq.headers",
        "(default exchange)",
    ]
    assert [(edge.kind, edge.lines) for edge in picture.edges] == [
        ("binding", ("k",)),
        ("binding", ('x-match="any", colour="red", n=1',)),
        ("binding", ("everything",)),
        ("dead letters", ("dead letters",)),
        ("dead letters", ("rejected and orphaned",)),
    ]


def test_an_empty_dead_letter_routing_key_is_shown_as_one():
    arguments: Table = {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": ""}

    picture = draw(Definitions(queues=(Queue("q", arguments=arguments),)))

    assert picture.edges == (
        DiagramEdge("q0", "x1", "dead letters", ("dead letters as (empty key)",)),
    )


def test_a_queue_shows_its_settings():
    classic = Queue(
        "classic",
        arguments={
            "x-expires": 60_000,
            "x-max-length": 10,
            "x-max-length-bytes": 1000,
            "x-overflow": "reject-publish",
            "x-max-priority": 9,
        },
    )
    quorum = Queue(
        "quorum",
        arguments={
            "x-queue-type": "quorum",
            "x-dead-letter-exchange": "amq.fanout",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-delivery-limit": 3,
        },
    )

    first, second, _ = draw(Definitions(queues=(classic, quorum))).nodes

    assert first.lines == (
        "classic",
        "expires 60000 ms",
        "max-length 10",
        "max-length-bytes 1000",
        "reject-publish",
        "max-priority 9",
    )
    assert second.lines == ("quorum", "quorum", "delivery-limit 3", "at-least-once")


def test_special_characters_of_names_are_escaped():
    evil = 'a"]; b --> c\n<script>&`*\\'
    picture = draw(Definitions(queues=(Queue(evil),)))

    in_mermaid = mermaid(picture).splitlines()
    in_dot = dot(picture).splitlines()

    assert in_mermaid == [
        "flowchart LR",
        '    q0[("a#34;]; b --#62; c #60;script#62;#38;#96;#42;#92;")]',
    ]
    assert in_dot[2] == r'    q0 [shape=cylinder, label="a\"]; b --> c\n<script>&`*\\"];'
    assert len(in_dot) == 4


def test_equal_definitions_have_equal_pictures_with_distinct_ids():
    picture = draw(RETRY)

    assert picture == draw(RETRY)
    assert all(re.fullmatch(r"[xq]\d+", node.id) for node in picture.nodes)
    assert len({node.id for node in picture.nodes}) == len(picture.nodes)


def test_an_alternate_exchange_takes_messages_that_the_queue_does_not_dead_letter():
    """A rejection goes to the dead-letter exchange if there is one; an orphan never does."""
    both: Table = {"x-dead-letter-exchange": "amq.fanout", "x-alternate-exchange": "amq.direct"}

    picture = draw(Definitions(queues=(Queue("q", arguments=both),)))

    assert [edge.lines for edge in picture.edges] == [("dead letters",), ("orphaned",)]


def test_a_chain_of_alternate_exchanges_is_drawn_from_queue_to_queue():
    definitions = Definitions(
        exchanges=(
            Exchange("first", "direct", arguments={"alternate-exchange": "second"}),
            Exchange("second", "fanout"),
        ),
        queues=(Queue("work", arguments={"x-alternate-exchange": "first"}), Queue("spare")),
        bindings=(Binding("second", "spare"),),
    )

    picture = draw(definitions)

    names = {node.id: node.lines[0] for node in picture.nodes}
    assert {(names[edge.source], names[edge.target]) for edge in picture.edges} == {
        ("work", "first"),
        ("first", "second"),
        ("second", "spare"),
    }


def test_the_default_exchange_takes_nothing_as_an_alternate():
    """R-AE-9."""
    exchange = Exchange("x", arguments={"alternate-exchange": ""})

    (edge,) = draw(Definitions(exchanges=(exchange,))).edges

    assert edge.lines == ("otherwise, and lost",)


SKIPPED_OBJECTS = SkippedObjects(
    exchanges=(Exchange("later", "x-delayed-message"),),
    queues=(Queue("log", arguments={"x-queue-type": "stream"}),),
    bindings=(
        Binding("later", "q", routing_key="k"),
        Binding("later", "log"),
        Binding("x", "log", routing_key="#"),
    ),
    reasons={("exchange", "later"): "", ("queue", "log"): ""},
)


def test_skipped_objects_are_drawn_and_marked():
    definitions = Definitions(
        (Exchange("x", "topic"),),
        (Queue("q", arguments={"x-dead-letter-exchange": "later"}),),
    )

    drawn = draw(definitions, skipped=SKIPPED_OBJECTS)

    names = {node.id: node.lines[0] for node in drawn.nodes}
    assert {node.lines for node in drawn.nodes if node.skipped} == {
        ("later", "x-delayed-message exchange", "skipped"),
        ("log", "stream", "skipped"),
    }
    assert {(names[each.source], names[each.target], each.lines) for each in drawn.edges} == {
        ("x", "log", ("#",)),
        ("later", "q", ("k",)),
        ("later", "log", ()),
        ("q", "later", ("dead letters",)),
    }
    assert all(edge.skipped for edge in drawn.edges)
    assert "linkStyle 0,1,2,3 " in mermaid(drawn)
    assert ":::skipped" in mermaid(drawn)
    assert dot(drawn).count("style=dashed") == 6


def test_a_skipped_object_that_nothing_leads_to_has_no_edges():
    alone = SkippedObjects(queues=(Queue("log"),), reasons={("queue", "log"): ""})

    assert "linkStyle" not in mermaid(draw(Definitions(), skipped=alone))
