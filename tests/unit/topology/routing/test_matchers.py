"""Direct, fanout, topic and headers exchanges, one matcher at a time."""

import pytest

from topology.declarations import Binding
from topology.routing.exchanges import EXCHANGE_TYPES, new_matcher
from topology.values import Timestamp


def matcher_of(exchange_type, *bindings, compat="4.0"):
    matcher = new_matcher(exchange_type, compat)
    for binding in bindings:
        matcher.add(binding)
    return matcher


def queues(matcher, *routing_keys, headers=None):
    groups = matcher.match(routing_keys, headers)
    assert all(not group.empty for group in groups)
    return sorted({queue for group in groups for queue in group.queues})


def exchanges(matcher, *routing_keys):
    groups = matcher.match(routing_keys, None)
    return sorted({exchange for group in groups for exchange in group.exchanges})


def keyed(queue, key):
    return Binding("x", queue, routing_key=key)


def asking(queue, **arguments):
    return Binding(
        "x", queue, arguments={name.replace("_", "-"): value for name, value in arguments.items()}
    )


def test_a_direct_exchange_compares_whole_keys():
    """R-ROUTE-2."""
    matcher = matcher_of(
        "direct", keyed("a", "k"), keyed("empty", ""), keyed("hash", "#"), keyed("star", "*")
    )

    assert queues(matcher, "k") == ["a"]
    assert queues(matcher, "K") == []
    assert queues(matcher, "") == ["empty"]
    assert queues(matcher, "#") == ["hash"]
    assert queues(matcher, "k", "*", "none") == ["a", "star"]


def test_a_fanout_exchange_ignores_keys():
    """R-ROUTE-3."""
    matcher = matcher_of("fanout", keyed("a", "k"), keyed("b", ""))

    assert queues(matcher, "anything") == ["a", "b"]
    assert queues(matcher_of("fanout"), "anything") == []


@pytest.mark.parametrize("exchange_type", EXCHANGE_TYPES)
def test_a_destination_stays_until_its_last_binding_is_removed(exchange_type):
    first = Binding("x", "q", routing_key="k")
    second = Binding("x", "q", routing_key="k", arguments={"x-other": 1})
    matcher = matcher_of(exchange_type, first, second)

    matcher.remove(first)
    assert queues(matcher, "k") == ["q"]
    matcher.remove(second)
    assert queues(matcher, "k") == []


@pytest.mark.parametrize("exchange_type", EXCHANGE_TYPES)
def test_queues_and_exchanges_of_one_name_are_different_destinations(exchange_type):
    to_queue = Binding("x", "same", routing_key="k")
    to_exchange = Binding("x", "same", "exchange", routing_key="k")
    matcher = matcher_of(exchange_type, to_queue, to_exchange)
    assert (queues(matcher, "k"), exchanges(matcher, "k")) == (["same"], ["same"])

    matcher.remove(to_queue)
    assert (queues(matcher, "k"), exchanges(matcher, "k")) == ([], ["same"])
    matcher.remove(to_exchange)
    assert matcher.match(("k",), None) == []


@pytest.mark.parametrize(
    ("pattern", "matching", "not_matching"),
    [
        ("a.*", ["a.", "a.b"], ["a", "a.b.c", "b.a"]),
        ("*.*", [".", "a.b"], ["", "a", "a.b.c"]),
        ("*", ["a", "*", "#"], ["", "."]),
        ("#", ["", ".", "a", "a.b"], []),
        ("a.#", ["a", "a.b", "a.", "a.b.c"], ["", "b"]),
        ("#.b", ["b", ".b", "a.b", "a.c.b"], ["", "b.a"]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b"], ["a", "b", "a.b.c"]),
        ("*.#", ["a", "a.b"], [""]),
        ("#.*", ["a", "a.b"], [""]),
        ("#.*.#", ["a", "a.b.c"], [""]),
        ("*.#.*", ["a.b", "a.b.c"], ["", "a"]),
        ("#.#", ["", "a", "a.b"], []),
        ("#.a.#.a.#", ["a.a", "a.b.a", "x.a.y.a.z"], ["", "a", "a.b"]),
        ("a.", ["a."], ["a", "a.b"]),
        (".", ["."], ["", "a", "a."]),
        ("", [""], ["a", "."]),
        ("a*", ["a*"], ["ab", "a.b"]),
        ("**", ["**"], ["a", "a.b"]),
        ("a#", ["a#"], ["a", "a.b"]),
        ("a.b", ["a.b"], ["a.*", "A.b", "a"]),
    ],
)
def test_a_topic_exchange_matches_word_by_word(pattern, matching, not_matching):
    """R-TOPIC-1 to R-TOPIC-7."""
    matcher = matcher_of("topic", keyed("q", pattern))

    assert [key for key in (*matching, *not_matching) if queues(matcher, key)] == matching


def test_a_topic_exchange_unites_the_matches_of_several_keys():
    """R-TOPIC-8."""
    matcher = matcher_of("topic", keyed("a", "a.*"), keyed("b", "#.b"), keyed("c", "c"))

    assert queues(matcher, "a.b") == ["a", "b"]
    assert queues(matcher, "x", "c", "x.b") == ["b", "c"]


def test_a_topic_exchange_forgets_removed_keys_and_keeps_the_others():
    bindings = [
        keyed("a", "x.y"),
        keyed("b", "x.y.z"),
        keyed("c", "x.*"),
        keyed("d", "x.#"),
        keyed("e", "x"),
    ]
    matcher = matcher_of("topic", *bindings)

    matcher.remove(bindings[1])
    assert queues(matcher, "x.y.z") == ["d"]
    matcher.remove(bindings[2])
    assert queues(matcher, "x.y") == ["a", "d"]
    matcher.remove(bindings[3])
    assert queues(matcher, "x.y") == ["a"]
    matcher.remove(bindings[0])
    assert queues(matcher, "x.y") == []
    assert queues(matcher, "x") == ["e"]


def test_many_hashes_do_not_slow_a_topic_exchange_down():
    matcher = matcher_of(
        "topic", keyed("q", ".".join(["#", "a"] * 10)), keyed("r", ".".join(["#"] * 10))
    )

    assert queues(matcher, ".".join(["a"] * 5000)) == ["q", "r"]
    assert queues(matcher, ".".join(["a"] * 5000 + ["b"])) == ["r"]


def test_all_needs_every_pair_and_is_the_default():
    """R-HDR-1."""
    matcher = matcher_of("headers", asking("all", a=1, b="x", x_match="all"), asking("def", a=1))

    assert queues(matcher, "", headers={"a": 1, "b": "x", "c": 0}) == ["all", "def"]
    assert queues(matcher, "", headers={"a": 1}) == ["def"]
    assert queues(matcher, "", headers={"b": "x"}) == []
    assert queues(matcher, "", headers={"a": 1, "b": "y"}) == ["def"]
    assert queues(matcher, "") == []


def test_any_needs_one_pair():
    """R-HDR-2."""
    matcher = matcher_of("headers", asking("any", a=1, b="x", x_match="any"))

    assert queues(matcher, "", headers={"a": 1, "b": "y"}) == ["any"]
    assert queues(matcher, "", headers={"b": "x", "a": 2}) == ["any"]
    assert queues(matcher, "", headers={"a": 1, "b": "x"}) == ["any"]
    assert queues(matcher, "", headers={"a": 2}) == []


def test_without_pairs_all_matches_everything_and_any_nothing():
    """R-HDR-3."""
    matcher = matcher_of(
        "headers", asking("all", x_match="all"), asking("none"), asking("any", x_match="any")
    )

    assert queues(matcher, "") == ["all", "none"]
    assert queues(matcher, "", headers={"a": 1}) == ["all", "none"]


def test_a_void_value_matches_any_value():
    """R-HDR-4."""
    matcher = matcher_of(
        "headers", asking("all", a=None, b=1), asking("any", a=None, c=1, x_match="any")
    )

    assert queues(matcher, "", headers={"a": "whatever", "b": 1}) == ["all", "any"]
    assert queues(matcher, "", headers={"a": None, "b": 1}) == ["all", "any"]
    assert queues(matcher, "", headers={"b": 1}) == []
    assert queues(matcher, "", headers={"c": None}) == []


@pytest.mark.parametrize(
    ("x_match", "without", "with_x"),
    [
        ("all", ["q"], ["q"]),
        ("all-with-x", [], ["q"]),
        ("any", [], []),
        ("any-with-x", [], ["q"]),
    ],
)
def test_pairs_that_begin_with_x_are_compared_only_with_all_with_x_or_any_with_x(
    x_match, without, with_x
):
    """R-HDR-5; `x-match` itself is never compared."""
    matcher = matcher_of("headers", asking("q", x_k=1, x_match=x_match))

    assert queues(matcher, "", headers={"x-match": x_match}) == without
    assert queues(matcher, "", headers={"x-k": 1}) == with_x


@pytest.mark.parametrize(("compat", "found"), [("4.0", ["float"]), ("3.10", ["float", "int"])])
def test_an_integer_equals_a_float_on_3_10_only(compat, found):
    """R-HDR-6."""
    matcher = matcher_of("headers", asking("int", a=1), asking("float", a=1.0), compat=compat)

    assert queues(matcher, "", headers={"a": 1.0}) == found


def test_values_of_other_types_do_not_match():
    """R-HDR-6."""
    matcher = matcher_of(
        "headers",
        asking("int", a=1),
        asking("text", a="1"),
        asking("bool", a=True),
        asking("bytes", a=b"\xff"),
        asking("array", a=[1, 2]),
        asking("table", a={"p": 1, "q": 2}),
    )

    assert queues(matcher, "", headers={"a": 1}) == ["int"]
    assert queues(matcher, "", headers={"a": "1"}) == ["text"]
    assert queues(matcher, "", headers={"a": True}) == ["bool"]
    assert queues(matcher, "", headers={"a": b"\xff"}) == ["bytes"]
    assert queues(matcher, "", headers={"a": [1, 2]}) == ["array"]
    assert queues(matcher, "", headers={"a": [2, 1]}) == []
    assert queues(matcher, "", headers={"a": {"q": 2, "p": 1}}) == ["table"]


@pytest.mark.parametrize("compat", ["4.0", "3.10"])
@pytest.mark.parametrize(
    ("wanted", "value"), [("1", b"1"), (b"1", "1"), ("", b""), ([], {}), ({}, [])]
)
def test_a_text_equals_bytes_and_nothing_equals_nothing(compat, wanted, value):
    """R-HDR-6."""
    matcher = matcher_of("headers", asking("q", a=wanted), compat=compat)

    assert queues(matcher, "", headers={"a": value}) == ["q"]


@pytest.mark.parametrize(
    ("compat", "value", "found"),
    [
        ("4.0", 5, ["int", "time"]),
        ("4.0", 5.0, []),
        ("4.0", Timestamp(5), ["thousands"]),
        ("3.10", 5, ["int", "time"]),
        ("3.10", 5.0, ["int", "time"]),
        ("3.10", Timestamp(5), ["int", "time"]),
    ],
)
def test_a_timestamp_is_a_number_of_milliseconds_in_a_message_of_4_0(compat, value, found):
    """R-HDR-6."""
    matcher = matcher_of(
        "headers",
        asking("int", a=5),
        asking("time", a=Timestamp(5)),
        asking("thousands", a=5_000),
        compat=compat,
    )

    assert queues(matcher, "", headers={"a": value}) == found


def test_a_headers_exchange_ignores_keys():
    """R-HDR-7."""
    binding = Binding("x", "q", routing_key="k", arguments={"a": 1})
    other = Binding("x", "q", routing_key="other", arguments={"a": 1})
    matcher = matcher_of("headers", binding, other)

    assert queues(matcher, "unrelated", headers={"a": 1}) == ["q"]
    matcher.remove(other)
    assert queues(matcher, "unrelated", headers={"a": 1}) == ["q"]


def test_removed_headers_bindings_never_match():
    bindings = [
        asking("a", p=1, q=1),
        asking("b", p=1, q=1, r=1),
        asking("c", p=1, q=1, x_match="any"),
        asking("d"),
    ]
    matcher = matcher_of("headers", *bindings)
    headers = {"p": 1, "q": 1, "r": 1}
    assert queues(matcher, "", headers=headers) == ["a", "b", "c", "d"]

    left = ["a", "b", "c", "d"]
    for binding in bindings:
        matcher.remove(binding)
        left.remove(binding.destination)
        assert queues(matcher, "", headers=headers) == left


def test_sorted_queues_follow_every_change():
    matcher = matcher_of("fanout", keyed("b", ""), keyed("a", ""))
    (group,) = matcher.match(("",), None)
    assert group.sorted_queues == ("a", "b")

    matcher.add(keyed("0", ""))
    assert group.sorted_queues == ("0", "a", "b")
    matcher.remove(keyed("a", ""))
    assert group.sorted_queues == ("0", "b")
