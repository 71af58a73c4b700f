"""Values of messages by which a search finds them: what is read, and what is left alone."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.protocol.search_keys import (
    MAX_BODY_BYTES,
    MAX_VALUE_BYTES,
    PATH,
    SearchPaths,
    key_of,
)


def of_body(path, body):
    return [value for _path, value in SearchPaths([path]).values(body, None, None)]


@pytest.mark.parametrize(
    ("path", "body", "values"),
    [
        ("body:$.order", b'{"order": 17}', ["17"]),
        ("body:$.order", b' \r\n{"x": {}, "order" : "17"}', ["17"]),
        ("body:$.order", b'{"order": 1.50}', ["1.50"]),
        ("body:$.order", b'{"order": -3}', ["-3"]),
        ("body:$.order", b'{"order": ' + b"1234567890" * 3 + b"}", ["1234567890" * 3]),
        ("body:$.order", '{"order": "Zoë \\u00e9"}'.encode(), ["Zoë é"]),
        ("body:$.order.id", b'{"order": {"id": "A"}}', ["A"]),
        ("body:$.lines[1].sku", b'{"lines": [1, {"sku": "B"}]}', ["B"]),
        ("body:$[0]", b"[5]", ["5"]),
        ('body:$["order id"].x-1', b'{"order id": {"x-1": 2}}', ["2"]),
        ("body:$.order", b'{"order": 1, "order": 2}', ["2"]),
    ],
)
def test_a_value_is_read_as_it_is_written(path, body, values):
    assert re.fullmatch(PATH, path)
    assert of_body(path, body) == values


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"17",
        b"order=17",
        b'{"order": 17',
        b'{"order": 17}}',
        b'{"order": 17} trailing',
        b'{"order": }',
        b'{"order": true}',
        b'{"order": null}',
        b'{"order": ""}',
        b'{"order": {"id": 17}}',
        b'{"order": [17]}',
        b'{"Order": 17}',
        b'{"order": "\xff"}',
        b'{"order": "\\ud800"}',
        b'{"order": ' + b"[" * 1_000_000,
        b"[" * 1_000_000,
        b" " * 100 + b'{"order": 17}',
        b'\xef\xbb\xbf{"order": 17}',
        b'{"order": "' + b"x" * (MAX_VALUE_BYTES + 1) + b'"}',
        b'{"order": ' + b"9" * 5000 + b"}",
        b'{"order": 17, "pad": "' + b"x" * MAX_BODY_BYTES + b'"}',
        b"\x1f\x8b\x08\x00",
    ],
)
def test_what_cannot_be_read_has_no_value(body):
    assert of_body("body:$.order", body) == []


def test_headers_and_properties_have_values():
    paths = SearchPaths(["header:tenant", "header:n", "header:raw", "property:message_id"])

    found = paths.values(
        None,
        json.dumps({"tenant": "acme", "n": 5, "raw": {"$bytes": "eA=="}}),
        {"message_id": "shop-17", "correlation_id": "c"},
    )

    assert list(found) == [
        ("property:message_id", "shop-17"),
        ("header:tenant", "acme"),
        ("header:n", "5"),
    ]


def test_a_message_without_headers_and_properties_has_none():
    paths = SearchPaths(["header:tenant", "property:message_id", "body:$.order"])

    assert list(paths.values(None, None, None)) == []


@pytest.mark.parametrize(
    "path",
    [
        *("order", "body:order", "body:$", "body:$.", "body:$..order", "body:$.*", "header:"),
        *("x:y", "property:body", "body:$[-1]", "body:$.a\n", "body:$" + ".a" * 17),
    ],
)
def test_other_paths_are_refused(path):
    assert re.fullmatch(PATH, path) is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
)


@given(document=JSON, order=st.integers(-(10**30), 10**30) | st.text(min_size=1, max_size=60))
def test_a_value_is_found_whatever_is_beside_it(document, order):
    body = json.dumps({"beside": document, "order": order, "after": document}).encode()

    assert of_body("body:$.order", body) == [str(order)]


@given(body=st.binary(max_size=200) | st.binary(max_size=60).map(lambda raw: b'{"order":' + raw))
def test_no_body_is_an_error(body):
    for value in of_body("body:$.order", body) + of_body("body:$[0].a", body):
        assert 0 < len(value.encode()) <= MAX_VALUE_BYTES


def test_keys_never_change_since_they_are_stored():
    assert key_of("17") == 2322042198017538996
