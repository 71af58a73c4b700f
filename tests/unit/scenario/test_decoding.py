"""Text that Python accepts as JSON and a broker would change."""

import pytest

from streaming.scenario.document import decode
from topology.errors import Problem


def test_json_is_decoded_unchanged():
    text = b'\xef\xbb\xbf{"a": [1, 1.5, "\xc3\xa9", null, true, {}], "b": -9223372036854775808}'

    assert decode(text) == ({"a": [1, 1.5, "é", None, True, {}], "b": -(2**63)}, [])


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", "document", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"a":', "document", "is not JSON: Expecting value: line 1 column 6 (char 5)"),
        (b"{\xff}", "document", "is not UTF-8: byte 0xff at position 1"),
        ("[" * 100_000, "document", "is nested more than 200 levels deep"),
        ('{"a": {"b": [NaN]}}', "a.b[0]", "is not a finite number"),
        ('{"a": -Infinity}', "a", "is not a finite number"),
        ('{"a": 1e999}', "a", "is not a finite number"),
        ('{"a": 9223372036854775808}', "a", "is a number beyond 64 bits"),
        ('{"a": -9223372036854775809}', "a", "is a number beyond 64 bits"),
        ('{"a": 1' + "0" * 5000 + "}", "a", "is a number beyond 64 bits"),
        ('["\\ud800"]', "[0]", "has half of a surrogate pair, which is not valid text"),
        ('"\\udfff"', "document", "has half of a surrogate pair, which is not valid text"),
        (
            '{"\\ud800": 1}',
            "document",
            r"the name '\ud800' has half of a surrogate pair, which is not valid text",
        ),
        ('{"a": [{"b": 1, "b": 2}]}', "document", "an object names its member 'b' twice"),
        ('{"a\\u001b": NaN}', r"['a\x1b']", "is not a finite number"),
    ],
)
def test_values_that_a_broker_would_change_are_problems(text, where, what):
    _, problems = decode(text)

    assert problems == [Problem(where, what)]


def test_a_surrogate_pair_is_one_character():
    assert decode('"\\ud83d\\ude00"') == ("😀", [])


def test_nesting_and_the_path_of_its_problem_are_limited():
    _, problems = decode("[" * 200 + "]" * 200)
    _, too_deep = decode("[" * 300 + "]" * 300)

    assert problems == []
    path = "[0]" * 66 + "[0..."
    assert too_deep == [Problem(path, "is nested more than 200 levels deep")]


def test_all_problems_are_found_in_the_order_of_the_document():
    _, problems = decode('{"a": NaN, "b": [1e999, {"c": 18446744073709551616}], "d": 1}')

    assert [problem.where for problem in problems] == ["a", "b[0]", "b[1].c"]
