"""AMQP values: types, JSON form, typed equality."""

from decimal import Decimal
from typing import Any

import pytest

from topology.values import (
    MAX_DEPTH,
    Timestamp,
    amqp_type,
    from_json,
    json_type,
    match_key,
    match_key_3_10,
    table_from_json,
    table_to_json,
    to_json,
)

ONE_OF_EACH: dict[str, Any] = {
    "void": None,
    "bool": True,
    "signedint": -(2**31),
    "long": 2**31,
    "double": 1.5,
    "longstr": "text",
    "binary": b"\x00\xff",
    "timestamp": Timestamp(1_700_000_000),
    "decimal": Decimal("1.50"),
    "array": [1, "a", [None]],
    "table": {"nested": {"b": b"x"}},
}
IN_JSON = {
    "void": None,
    "bool": True,
    "signedint": -(2**31),
    "long": 2**31,
    "double": 1.5,
    "longstr": "text",
    "binary": {"$bytes": "AP8="},
    "timestamp": {"$timestamp": 1_700_000_000},
    "decimal": {"$decimal": "1.50"},
    "array": [1, "a", [None]],
    "table": {"nested": {"b": {"$bytes": "eA=="}}},
}


def test_a_table_with_every_type_survives_json():
    assert table_to_json(ONE_OF_EACH) == IN_JSON
    assert table_from_json(IN_JSON) == ONE_OF_EACH


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_type_has_rabbitmqs_name(name):
    assert amqp_type(ONE_OF_EACH[name]) == name


def test_values_of_different_types_are_never_equal():
    alike: list[Any] = [None, False, 0, 0.0, "0", b"0", Timestamp(0), Decimal(0), [], {}]

    assert len({match_key(value) for value in alike}) == len(alike)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ([1], [True], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": None}, {}, False),
        (0.0, -0.0, True),
        (float("nan"), float("nan"), True),
        (2**40, 2**40, True),
        (Decimal("1.0"), Decimal("1.00"), False),
        (Timestamp(5), Timestamp(5), True),
    ],
)
def test_values_are_equal_by_type_and_content(one, other, equal):
    assert (match_key(one) == match_key(other)) is equal


def test_on_3_10_an_integral_float_equals_the_integer_unless_it_is_nested():
    assert match_key_3_10(1.0) == match_key_3_10(1)
    assert match_key_3_10(1.5) != match_key_3_10(1)
    assert match_key_3_10(True) != match_key_3_10(1)
    assert match_key_3_10([1.0]) != match_key_3_10([1])


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"$bytes": "not base64!"}, "$bytes must hold base64 text"),
        ({"$bytes": "é"}, "$bytes must hold base64 text"),
        ({"$bytes": 1}, "$bytes must hold base64 text"),
        ({"$timestamp": "now"}, "$timestamp must hold whole seconds, in 64 bits"),
        ({"$timestamp": True}, "$timestamp must hold whole seconds, in 64 bits"),
        ({"$decimal": "one"}, "$decimal must hold the text of a decimal number"),
        ({"$decimal": "NaN"}, "$decimal must hold the text of a decimal number"),
        ({"$decimal": 1}, "$decimal must hold the text of a decimal number"),
        (object(), "object is not a JSON type"),
        ({1: "a"}, "a table has the key 1, which is not a string"),
    ],
)
def test_json_that_is_no_amqp_value_is_refused_with_the_reason(document, reason):
    with pytest.raises(ValueError, match="^" + reason.replace("$", r"\$") + "$"):
        from_json(document)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**70])
def test_a_number_that_amqp_cannot_carry_is_refused(number):
    for document in (number, [number], {"nested": number}):
        with pytest.raises(ValueError, match="is a number beyond 64 bits"):
            from_json(document)
    with pytest.raises(ValueError, match="whole seconds, in 64 bits"):
        from_json({"$timestamp": number})
    assert from_json([2**63 - 1, -(2**63)]) == [2**63 - 1, -(2**63)]


def test_nesting_is_limited():
    document: object = 1
    for _ in range(MAX_DEPTH):
        document = [document]

    assert from_json(document) == document
    with pytest.raises(ValueError, match=f"^is nested more than {MAX_DEPTH} levels deep$"):
        from_json([document])
    with pytest.raises(ValueError, match=f"^is nested more than {MAX_DEPTH} levels deep$"):
        from_json({"a": document})


def test_a_table_with_a_typed_member_name_is_a_table():
    assert table_from_json({"$bytes": "text"}) == {"$bytes": "text"}
    assert table_to_json({"$bytes": "text"}) == {"$bytes": "text"}


@pytest.mark.parametrize("nested", [{"$bytes": "text"}, [{"$bytes": "text"}]])
def test_an_ambiguous_nested_table_is_refused_or_gets_another_name(nested):
    with pytest.raises(
        ValueError, match=r"a table whose only member is '[$]bytes' has no JSON form"
    ):
        to_json({"a": nested}, exact=True)

    said = to_json({"a": nested})

    assert said == {"a": [{"$$bytes": "text"}] if isinstance(nested, list) else {"$$bytes": "text"}}
    assert to_json(from_json(said)) == said


def test_a_nested_table_with_a_typed_member_name_beside_another_is_a_table():
    table: dict[str, Any] = {"a": {"$bytes": "text", "b": 1}}

    assert to_json(table, exact=True) == table
    assert from_json(table) == table


def test_a_table_must_be_an_object():
    with pytest.raises(ValueError, match=r"^expected an object, got an array$"):
        table_from_json([])


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "a number"),
        (1.5, "a number"),
        ("a", "a string"),
        ([], "an array"),
        ({}, "an object"),
    ],
)
def test_json_types_are_named_with_their_article(document, name):
    assert json_type(document) == name
