"""The picture of a topology: what it shows, what it groups, and how it is written."""

from streaming.console.languages import Languages
from streaming.console.pages.topology_graph import (
    MAX_DRAWN,
    before_and_after,
    busiest,
    dot,
    grouped,
    imported,
    picture,
)
from streaming.queries.traffic import VhostTraffic
from topology.analysis.diagram import draw
from topology.declarations import Binding, Definitions, Exchange, Policy, Queue
from topology.values import AmqpValue

NOTHING = VhostTraffic({}, {}, {}, {})


def shop(*more: str, **arguments):
    names = ("work", *more)
    return Definitions(
        exchanges=(Exchange("orders", "topic"),),
        queues=tuple(Queue(name, arguments=arguments) for name in names),
        bindings=tuple(Binding("orders", name, routing_key="order.#") for name in names),
    )


def address(kind, name):
    return f"/{kind}?name={name}"


def test_lines_are_as_thick_as_what_took_them_and_losses_are_marked():
    moved = VhostTraffic(
        {("orders", "work"): 1_000, ("orders", "audit"): 1},
        {("work", "expired"): 7},
        {"work": 7},
        {},
    )
    drawn = picture(draw(shop("audit")), moved)

    text = dot(drawn, address)

    assert 'class="queue loss", URL="/queue?name=work", label="work\\n7 died"' in text
    assert 'penwidth=5.00, arrowsize=1.70, class="", label="order.#\\n1,000"' in text
    assert 'penwidth=1.40, arrowsize=0.98, class="", label="order.#\\n1"' in text
    assert '-> lost [style=solid, penwidth=2.20, arrowsize=1.14, class="loss", label' in text
    assert 'lost [shape=plaintext, class="lost loss", URL="", label="no queue"' in text


def test_an_edge_leads_to_what_took_it_and_says_what_it_is():
    dead: dict[str, AmqpValue] = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "parked",
    }
    whole = Definitions(
        exchanges=(Exchange("orders", "topic"), Exchange("inner", "fanout")),
        queues=(Queue("work", arguments=dead), Queue("parked")),
        bindings=(
            Binding("orders", "work", routing_key="order.#"),
            Binding("orders", "inner", destination_type="exchange", routing_key="x"),
        ),
    )
    moved = VhostTraffic(
        {("orders", "work"): 9}, {("work", "expired"): 7}, {"work": 2}, {"orders": 3}
    )

    text = dot(picture(draw(whole), moved), address, Languages("de").named("de"))

    for said, link in (
        ("orders → work: order.# 9", "/queue?name=work"),
        ("orders → inner: x", "/exchange?name=inner"),
        ("work → parked: Dead Letters 7", "/deaths?name=work"),
        ("work → keine Queue: 2 verloren", "/deaths?name=work"),
        ("orders → keine Queue: 3 ohne Route", "/exchange?name=orders"),
    ):
        assert f'URL="{link}", tooltip="{said}"];' in text, said


def test_what_a_queue_drops_as_declared_is_no_loss_and_is_said_in_the_language_of_the_page():
    moved = VhostTraffic({}, {("work", "maxlen"): 1_200}, {}, {}, {"work": 1_200})
    drawn = picture(draw(shop()), moved)

    text = dot(drawn, address, Languages("de").named("de"))

    assert "loss" not in text
    assert 'class="queue dropped"' in text
    assert '-> dropped [style=solid, penwidth=5.00, arrowsize=1.70, class="dropped"' in text
    assert 'label="1.200 verworfen, wie deklariert"' in text


def test_unrouted_publishes_are_losses_of_their_exchange():
    drawn = picture(draw(shop()), VhostTraffic({}, {}, {}, {"orders": 3}))

    assert 'class="exchange loss"' in dot(drawn, address)
    assert 'label="3 unrouted"' in dot(drawn, address)


def test_names_cannot_leave_their_place_in_the_text():
    name = 'a"];\\n evil [label="\\'
    text = dot(picture(draw(shop(name))), address)

    assert 'label="a\\"];\\\\n evil [label=\\"\\\\", tooltip=' in text
    assert len(text.splitlines()) == 2 + 3 + 2 + 1


def test_queues_that_are_bound_alike_become_one_node():
    many = [f"worker-{number}" for number in range(1_000)]
    moved = VhostTraffic({("orders", name): 2 for name in many}, {}, {"worker-7": 1}, {})
    whole = Definitions(
        **{
            **{name: getattr(shop(*many), name) for name in ("exchanges", "bindings")},
            "queues": (*shop(*many).queues, Queue("alone"), Queue("too")),
        }
    )

    drawn = grouped(picture(draw(whole), moved))

    found = {spot.lines[0]: (spot.members, spot.marks) for spot in drawn.spots}
    assert found == {
        "orders": (1, ()),
        "work…": (1_000, ()),
        "alone": (1, ()),
        "too": (1, ()),
        "worker-7": (1, ("loss",)),
        "no queue": (1, ("loss",)),
    }
    [into] = [way for way in drawn.ways if way.copies == 1_998]
    assert into.lines == ("1,998",)
    assert 'URL="/queues?name=work"' in dot(drawn, address)


def test_what_is_still_too_large_keeps_its_busiest_part():
    bindings = tuple(
        Binding(f"x{number}", f"q{number}", routing_key=f"{number}") for number in range(200)
    )
    definitions = Definitions(
        exchanges=tuple(Exchange(one.source, "direct") for one in bindings),
        queues=tuple(Queue(one.destination) for one in bindings),
        bindings=bindings,
    )
    moved = VhostTraffic({("x150", "q150"): 9}, {}, {}, {})

    drawn = busiest(grouped(picture(draw(definitions), moved)))

    assert len(drawn.spots) == MAX_DRAWN
    assert {"x150", "q150"} <= {spot.name for spot in drawn.spots}


def test_before_and_after_show_what_changes_and_what_is_beside_it():
    live = shop("audit", "far")
    wanted = Definitions(
        queues=(Queue("late"),),
        bindings=(Binding("orders", "late", routing_key="order.late"),),
        policies=(Policy("p", "^audit$", {"max-length": 5}),),
    )

    before, after = before_and_after(draw(live), draw(imported(live, wanted)))

    marked = [
        {spot.lines: spot.marks for spot in one.spots if spot.marks} for one in (before, after)
    ]
    assert marked == [
        {("audit",): ("changed",)},
        {("audit", "max-length 5", "drop-head"): ("changed",), ("late",): ("new",)},
    ]
    [way] = [way for way in after.ways if way.marks]
    assert (way.lines, way.marks) == (("order.late",), ("new",))
    assert 'class="new"' in dot(after, address)


def test_an_import_of_the_same_shows_nothing():
    live = shop("audit")

    before, after = before_and_after(draw(live), draw(imported(live, live)))

    assert (before.spots, after.spots) == ([], [])


def test_an_import_removes_nothing():
    live = shop("audit")

    assert imported(live, Definitions()) == live
    assert len(imported(live, shop("audit")).bindings) == 2
