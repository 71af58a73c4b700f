"""Cycles of automatic deaths."""

import pytest

from topology.analysis.cycles import (
    MAX_CYCLES,
    DeadLetterCycle,
    automatic_cycles,
    automatic_reasons,
)
from topology.declarations import Binding, Definitions, Exchange, Queue
from topology.policies import QueueSettings
from topology.values import Table
from topology.vhost import Vhost


def dying(name, dlx, key=None, **arguments):
    """A queue whose messages expire, with its dead-letter target."""
    where: Table = {"x-dead-letter-exchange": dlx}
    if key is not None:
        where["x-dead-letter-routing-key"] = key
    return Queue(name, arguments={"x-message-ttl": 1000} | where | arguments)


def cycles(queues, exchanges=(), bindings=()):
    definitions = Definitions(tuple(exchanges), tuple(queues), tuple(bindings))
    return [str(cycle) for cycle in automatic_cycles(Vhost.from_definitions(definitions))]


@pytest.mark.parametrize(
    ("settings", "reasons"),
    [
        (QueueSettings("classic"), ()),
        (QueueSettings("classic", message_ttl_ms=0), ("expired",)),
        (QueueSettings("classic", max_length=0), ("maxlen",)),
        (QueueSettings("classic", max_length_bytes=9), ("maxlen",)),
        (QueueSettings("classic", max_length=1, overflow="reject-publish"), ()),
        (QueueSettings("classic", max_length=1, overflow="reject-publish-dlx"), ("maxlen",)),
        (QueueSettings("quorum", delivery_limit=0), ("delivery_limit",)),
        (
            QueueSettings("quorum", message_ttl_ms=1, max_length=1, delivery_limit=1),
            ("expired", "maxlen", "delivery_limit"),
        ),
    ],
)
def test_the_settings_of_a_queue_decide_its_automatic_deaths(settings, reasons):
    assert automatic_reasons(settings) == reasons


def test_the_text_of_a_cycle_starts_and_ends_with_its_first_queue():
    cycle = DeadLetterCycle(("a", "b"), (("expired",), ("expired", "maxlen")))

    assert str(cycle) == "a -(expired)-> b -(expired or maxlen)-> a"


def test_a_queue_that_dead_letters_to_itself_by_name_is_a_cycle():
    assert cycles([dying("a", "", "a")]) == ["a -(expired)-> a"]


def test_a_message_published_to_a_queue_by_name_returns_to_it_through_the_default_exchange():
    assert cycles([dying("a", "")]) == ["a -(expired)-> a"]


def test_a_queue_without_automatic_deaths_breaks_the_cycle():
    breaking = Queue(
        "b", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a"}
    )

    assert cycles([dying("a", "", "b"), breaking]) == []


def test_a_missing_dead_letter_exchange_breaks_the_cycle():
    assert cycles([dying("a", "", "b"), dying("b", "missing", "a")]) == []


def test_a_cycle_is_reported_once_from_its_first_queue_by_name():
    queues = [dying("c", "", "a"), dying("a", "", "b"), dying("b", "", "c")]

    assert cycles(queues) == ["a -(expired)-> b -(expired)-> c -(expired)-> a"]


def test_every_cycle_is_found():
    queues = [dying("a", "", "b"), dying("b", "", "a"), dying("c", "", "c"), dying("d", "", "a")]

    assert cycles(queues) == ["a -(expired)-> b -(expired)-> a", "c -(expired)-> c"]


def test_a_cycle_can_lead_through_exchanges_and_alternates():
    exchanges = [
        Exchange("x", "direct", arguments={"alternate-exchange": "y"}),
        Exchange("y", "fanout"),
    ]

    found = cycles([dying("a", "x", "no such key")], exchanges, [Binding("y", "a")])

    assert found == ["a -(expired)-> a"]


def test_a_key_without_a_binding_to_the_queue_makes_no_cycle():
    bindings = [Binding("x", "a", routing_key="in"), Binding("x", "b", routing_key="out")]

    assert cycles([dying("a", "x", "out"), Queue("b")], [Exchange("x")], bindings) == []


def test_a_return_with_another_key_is_a_cycle():
    exchanges = [Exchange("in", "direct"), Exchange("x", "direct")]
    bindings = [
        Binding("in", "a", routing_key="first"),
        Binding("x", "b", routing_key="first"),
        Binding("x", "c", routing_key="second"),
    ]
    back = dying("b", "", "a")
    returning = dying("b", "in", "second")

    assert cycles([dying("a", "x"), back, Queue("c")], exchanges, bindings) == [
        "a -(expired)-> b -(expired)-> a"
    ]
    assert cycles([dying("a", "x"), returning, Queue("c")], exchanges, bindings) == [], (
        "nothing is bound to 'in' with that key"
    )


def test_a_path_that_meets_another_queue_twice_is_only_that_queues_cycle():
    exchanges = [Exchange("by key", "direct"), Exchange("back", "direct")]
    bindings = [
        Binding("by key", "c", routing_key="first"),
        Binding("by key", "a", routing_key="second"),
        Binding("back", "b", routing_key="first"),
        Binding("back", "b", routing_key="second"),
    ]
    queues = [dying("a", "back", "first"), dying("b", "by key"), dying("c", "back", "second")]

    # The path a, b, c, b, a ends at the second b.
    assert cycles(queues, exchanges, bindings) == ["b -(expired)-> c -(expired)-> b"]


def test_a_cycle_with_a_side_exit_is_a_cycle():
    bindings = [Binding("x", "a"), Binding("x", "out")]

    assert cycles([dying("a", "x"), Queue("out")], [Exchange("x", "fanout")], bindings) == [
        "a -(expired)-> a"
    ]


def test_two_ways_round_are_two_cycles():
    exchanges = [Exchange("x", "fanout"), Exchange("y", "fanout")]
    bindings = [Binding("x", "b"), Binding("x", "c"), Binding("y", "d")]
    queues = [dying("a", "x"), dying("b", "y"), dying("c", "y"), dying("d", "", "a")]

    assert cycles(queues, exchanges, bindings) == [
        "a -(expired)-> b -(expired)-> d -(expired)-> a",
        "a -(expired)-> c -(expired)-> d -(expired)-> a",
    ]


def test_messages_with_unknown_keys_return_through_the_default_exchange_by_name_only():
    assert cycles([dying("a", "")], [Exchange("x", "fanout")], [Binding("x", "a")]) == [
        "a -(expired)-> a"
    ]


def test_a_headers_exchange_may_send_a_dead_letter_to_any_of_its_queues():
    exchanges = [Exchange("x", "headers")]
    bindings = [Binding("x", "a", arguments={"x-match": "any", "retry": True})]

    assert cycles([dying("a", "x", "k")], exchanges, bindings) == ["a -(expired)-> a"]


def test_the_text_of_a_long_cycle_is_shortened():
    queues = [dying(f"q{n:04}", "", f"q{(n + 1) % 3000:04}") for n in range(3000)]

    (cycle,) = cycles(queues)

    assert cycle == (
        "q0000 -(expired)-> q0001 -(expired)-> q0002 -(expired)-> q0003 -(expired)-> "
        "q0004 -(expired)-> q0005 -(expired)-> q0006 -(expired)-> q0007 -(expired)-> "
        "(2992 more queues) -> q0000"
    )


def test_the_number_of_reported_cycles_is_limited():
    queues = [dying(f"q{n:04}", "", f"q{n:04}") for n in range(MAX_CYCLES + 1)]

    found = cycles(queues)

    assert len(found) == MAX_CYCLES
    assert found[-1] == f"q{MAX_CYCLES - 1:04} -(expired)-> q{MAX_CYCLES - 1:04}"


def test_a_retry_binding_of_one_key_makes_no_cycle_of_messages_that_never_have_it():
    exchanges = [Exchange("orders", "topic"), Exchange("retry", "direct")]
    bindings = [
        Binding("orders", "work", routing_key="order.#"),
        Binding("retry", "wait", routing_key="again"),
    ]
    queues = [dying("work", "retry"), dying("wait", "", "work")]

    assert cycles(queues, exchanges, bindings) == []
    assert cycles(
        queues, exchanges, [*bindings, Binding("orders", "work", routing_key="again")]
    ) == ["wait -(expired)-> work -(expired)-> wait"]


def test_only_keys_in_common_travel_through_two_wildcards():
    exchanges = [Exchange("in", "topic"), Exchange("back", "topic", internal=True)]

    def travelled(arriving, returning):
        bindings = [
            Binding("in", "work", routing_key=arriving),
            Binding("back", "work", routing_key=returning),
        ]
        return cycles([dying("work", "back")], exchanges, bindings)

    assert travelled("a.*", "*.b") == ["work -(expired)-> work"]
    assert travelled("a.*", "b.*") == []
    assert travelled("a.#", "#.a.b") == ["work -(expired)-> work"]


def test_an_alternate_is_taken_only_by_keys_that_no_binding_matches():
    exchanges = [
        Exchange("in", "topic"),
        Exchange("dead", "topic", arguments={"alternate-exchange": "back"}),
        Exchange("back", "fanout", internal=True),
    ]
    queues = [dying("work", "dead"), Queue("buried")]

    def travelled(buried):
        bindings = [
            Binding("in", "work", routing_key="a.*"),
            Binding("back", "work"),
            Binding("dead", "buried", routing_key=buried),
        ]
        return cycles(queues, exchanges, [*bindings, Binding("dead", "buried", routing_key="work")])

    assert travelled("#") == []
    assert travelled("a.b") == ["work -(expired)-> work"]


def test_a_queue_that_rejections_alone_fill_may_begin_a_cycle():
    inner = Exchange("inner", "fanout", internal=True)
    rejecting = Queue("first", arguments={"x-dead-letter-exchange": "inner"})
    rerouting = Queue("other", arguments={"x-alternate-exchange": "inner"})

    assert cycles(
        [rejecting, rerouting, dying("work", "inner")], [inner], [Binding("inner", "work")]
    )


def test_with_too_many_keys_the_first_pass_decides():
    exchanges = [Exchange("in", "topic"), Exchange("back", "topic")]
    patterns = [f"#.{letter}.#.{letter}.#" for letter in "abcdefgh"]
    bindings = [Binding("in", "work", routing_key=pattern) for pattern in patterns]
    bindings += [Binding("back", "work", routing_key=pattern) for pattern in patterns]

    assert cycles([dying("work", "back")], exchanges, bindings) == ["work -(expired)-> work"]
    one = [Binding("in", "work", routing_key="#.a.#.b.#.c.#.d.#.e.#")]
    back = [Binding("back", "work", routing_key="#")]
    assert cycles([dying("work", "back")], exchanges, one + back) == ["work -(expired)-> work"]


def test_with_too_many_shapes_of_keys_the_first_pass_decides():
    exchanges = [Exchange("in", "topic"), Exchange("back", "topic")]
    bindings = [
        Binding("in", "work", routing_key="#.a.#.b.#.c.#"),
        Binding("back", "work", routing_key="z.y.x.w.v.u"),
        Binding("back", "work", routing_key="a"),
    ]

    assert cycles([dying("work", "back")], exchanges, bindings) == ["work -(expired)-> work"]


def test_with_too_many_places_the_first_pass_decides():
    exchanges = [Exchange(f"x{number}", "direct") for number in range(150)]
    bindings = [
        Binding(each.name, "work", routing_key=f"k{number}")
        for number, each in enumerate(exchanges)
    ]

    assert cycles([dying("work", "x0")], exchanges, bindings) == ["work -(expired)-> work"]
