"""The published JSON Schema agrees with the reader of scenario files."""

import json
import lzma
from pathlib import Path

import pytest

from streaming.protocol.command_json import KINDS
from streaming.scenario.document import parse_file
from streaming.scenario.json_schema import json_schema
from tests.recordings import PACKED, PARTS

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
EMPTY = {"steps": [], "end_ms": 0}


@pytest.fixture(scope="module")
def validator():
    from jsonschema import Draft202012Validator  # only this file needs it

    Draft202012Validator.check_schema(json_schema())
    return Draft202012Validator(json_schema())


def step(**members):
    """A scenario with one step."""
    return {"steps": [{"at_ms": 0, **members}], "end_ms": 0}


def expecting(messages):
    """A scenario that expects these messages in a queue."""
    return {**EMPTY, "expect": {"work": messages}}


def is_readable(document):
    """Whether the reader accepts a scenario."""
    return not parse_file(json.dumps(document), "scenario").problems


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_an_example_fits_the_schema(path, validator):
    assert list(validator.iter_errors(json.loads(path.read_text()))) == []


@pytest.mark.parametrize(
    "part", ["golden/", pytest.param("fuzz/", marks=pytest.mark.long)]
)  # what is random has the members of those written by hand, many times over
def test_every_recorded_scenario_fits_the_schema(part, validator):
    packed = json.loads(lzma.decompress(PACKED.read_bytes()))
    documents = {name: each for name, each in packed.items() if name.startswith(part)}

    broken = [name for name, document in documents.items() if not validator.is_valid(document)]

    assert broken == []
    assert len(documents) == sum(n for name, n in PARTS.items() if name.startswith(part))


@pytest.mark.parametrize("op", sorted({"publish", "sleep", *KINDS}))
def test_every_step_of_the_reader_is_in_the_schema(op):
    definition = json_schema()["$defs"][op]

    assert {"op", "at_ms", "comment"} <= definition["properties"].keys()
    assert definition["additionalProperties"] is False


@pytest.mark.parametrize(
    "document",
    [
        EMPTY,
        [EMPTY, EMPTY],
        {**EMPTY, "title": None, "unheard_of": 1},
        step(op="sleep"),
        step(op="get", queue="work", count=2, **{"as": "first"}),
        step(op="publish", properties={"priority": 3, "headers": {"n": 1}}),
        step(op="nack", refs=["a/0"], requeue=True, multiple=None),
        step(op="declare_queue", queue={"name": "work", "arguments": []}),
        step(op="set_operator_policy", policy={"name": "p", "pattern": "", "definition": {}}),
        step(op="check", steps=[{"op": "ack", "refs": ["a/0"]}]),
        expecting(None),
        expecting(["order", {"body": "order", "reasons": "rejected"}]),
        expecting({"bodies": ["order"], "reasons": [["rejected"]]}),
    ],
)
def test_documents_that_the_reader_accepts_fit_the_schema(document, validator):
    assert is_readable(document)
    assert validator.is_valid(document)


@pytest.mark.parametrize(
    "document",
    [
        "scenario",
        [],
        {"end_ms": 0},
        {"steps": []},
        {"steps": {}, "end_ms": 0},
        {"steps": [], "end_ms": -1},
        {"steps": [], "end_ms": "soon"},
        {**EMPTY, "definitions": []},
        {**EMPTY, "definitions": {"queues": [{"durable": True}]}},
        {**EMPTY, "definitions": {"bindings": [{"source": "", "destination": 1}]}},
        {**EMPTY, "outcomes": {"4.0.5": []}},
        step(op="fly"),
        step(queue="work"),
        step(op="sleep", queue="work"),
        step(op="get"),
        step(op="get", queue="q" * 256),
        step(op="get", queue="work", count=-1),
        step(op="get", queue="work", **{"as": ""}),
        step(op="consume", queue="work"),
        step(op="ack", refs="a/0"),
        step(op="publish", body=1),
        step(op="publish", mandatory="yes"),
        step(op="publish", properties={"priority": 256}),
        step(op="publish", properties={"colour": "red"}),
        step(op="declare_queue", queue={"name": "work", "colour": "red"}),
        step(op="bind", binding={"source": "", "destination": "q", "destination_type": "topic"}),
        step(op="check", steps=[{"op": "get", "queue": "work"}]),
        expecting("order"),
        expecting([{"body": "order", "colour": "red"}]),
        expecting([{"reasons": [1]}]),
    ],
)
def test_documents_of_a_wrong_shape_break_the_schema(document, validator):
    assert not is_readable(document)
    assert not validator.is_valid(document)
