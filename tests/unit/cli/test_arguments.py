"""`--argument NAME=VALUE`: the types of the values."""

import pytest
import typer

from streaming.cli.job.declare import parse_arguments
from topology.validation.arguments import QUEUE_ARGUMENTS


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("n=60000", 60000),
        ("n=-1", -1),
        ("n=true", True),
        ("n=1.5", 1.5),
        ("n=null", None),
        ('n="60000"', "60000"),
        ("n=dlx", "dlx"),
        ("n=", ""),
        ("n=a=b", "a=b"),
        ("n=[1, true]", [1, True]),
        ('n={"a": 1}', {"a": 1}),
    ],
)
def test_a_value_has_the_type_that_it_has_in_json_and_is_otherwise_a_string(given, value):
    [(name, read)] = parse_arguments([given]).items()

    assert (name, read, type(read)) == ("n", value, type(value))


def test_a_name_that_nobody_knows_is_allowed_unless_it_looks_misspelt():
    assert parse_arguments(["x-colour=red"], QUEUE_ARGUMENTS) == {"x-colour": "red"}
    with pytest.raises(typer.BadParameter, match="'x-max-length'"):
        parse_arguments(["x-max-lenght=1"], QUEUE_ARGUMENTS)


def test_headers_that_a_binding_matches_may_have_any_name():
    assert parse_arguments(["x-match=all", "x-batch=1"]) == {"x-match": "all", "x-batch": 1}


@pytest.mark.parametrize("given", ["n", "=1", 'n={"a"', "n=[1", 'n="a'])
def test_what_is_neither_name_and_value_nor_json_is_refused(given):
    with pytest.raises(typer.BadParameter):
        parse_arguments([given])
