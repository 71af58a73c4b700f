"""Values survive conversion to JSON and back."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.property.topology.amqp_values import amqp_values, json_values, texts
from topology.values import from_json, match_key, table_from_json, table_key, table_to_json

tables = st.dictionaries(texts, amqp_values(), max_size=3)


@given(tables)
def test_a_table_read_from_its_json_text_has_the_same_types(table):
    text = json.dumps(table_to_json(table))

    assert table_key(table_from_json(json.loads(text))) == table_key(table)


@given(st.one_of(json_values(), st.fixed_dictionaries({"$bytes": json_values()}),
                 st.fixed_dictionaries({"$timestamp": json_values()}),
                 st.fixed_dictionaries({"$decimal": json_values()})))  # fmt: skip
def test_any_json_is_a_value_or_refused_with_a_reason(document):
    try:
        value, reason = from_json(document), "$"
    except ValueError as error:
        value, reason = None, str(error)

    assert reason.startswith("$")
    assert match_key(value) == match_key(value)


@given(st.lists(amqp_values(), max_size=6))
def test_match_keys_are_hashable_and_sortable(values):
    keys = [match_key(value) for value in values]

    assert sorted(sorted(keys, reverse=True)) == sorted(keys)
    assert {match_key(value) for value in values} == set(keys)
