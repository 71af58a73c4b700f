"""A scenario: a topology, timed steps, and expected results.

{"id": ..., "title": ..., "definitions": {...}, "steps": [{"at_ms": 0, "op": ..., ...}, ...],
 "end_ms": 1000, "outcomes": {"4.0.5": {...}}, "expect": {queue: [{"body": ..., "reasons": [...]}]}}

The `definitions` have the form of RabbitMQ's definitions files, so that an export can be pasted in;
see `steps.py` and `expectations.py` for other members. `outcomes` are recordings of RabbitMQ by
version. A file holds one scenario or an array of them. Reading a scenario checks its form. Whether
RabbitMQ accepts the topology shows when it is played: the outcome of a refusal is `setup_error`.

Python accepts more than JSON and AMQP: NaN, numbers beyond 64 bits or a double, text that UTF-8
cannot express, repeated members, unlimited nesting. A broker would not return them unchanged, so
each is reported with its path.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streaming.broker.commands import DeclareQueue, ImportDefinitions
from streaming.protocol.json_input import MAX_DEPTH, CommandFields
from streaming.scenario.expectations import Expectations, read_expectations
from streaming.scenario.steps import MAX_MS, Step, read_steps
from topology.declarations import Definitions, Queue
from topology.definitions.json_object import Report
from topology.definitions.load import declarations_of_client
from topology.errors import InvalidDocumentError, Problem
from topology.values import INTEGERS, Compat, json_type

VERSIONS: dict[Compat, str] = {"4.0": "4.0.5", "3.10": "3.10.8"}
"""The recorded version for each compat setting."""

DESCRIPTIVE = ("rules", "version_note", "difference", "seed", "skip_versions", "no_jitter")
"""Members that describe a scenario and do not affect it."""

DOCUMENT = "document"
"""The path of the whole document, as for definitions files."""

SINGLE_LANE = "x-single-lane"

_MAX_PATH = 200
_DIGITS = 20
_TOO_BIG = 2**64


class MalformedScenarioError(InvalidDocumentError):
    """A scenario cannot be played."""


class Scenario(msgspec.Struct, frozen=True):
    """A scenario, ready to be played; `outcomes` are recordings by version of RabbitMQ."""

    id: str
    title: str
    definitions: Definitions
    steps: tuple[Step, ...]
    end_ms: int
    outcomes: dict[str, dict[str, Any]]
    expect: Expectations | None
    skipped: tuple[Problem, ...] = ()


def on_single_lanes(scenario: Scenario) -> Scenario:
    """The scenario with every queue declared with `x-single-lane`, for a vhost of several lanes."""
    definitions = scenario.definitions
    queues = tuple(_on_single_lane(queue) for queue in definitions.queues)
    steps = tuple(
        msgspec.structs.replace(step, action=_declaring_single(step.action))
        for step in scenario.steps
    )
    definitions = msgspec.structs.replace(definitions, queues=queues)
    return msgspec.structs.replace(scenario, definitions=definitions, steps=steps)


def _on_single_lane(queue: Queue) -> Queue:
    arguments = {**queue.arguments, SINGLE_LANE: True}
    return msgspec.structs.replace(queue, arguments=arguments)


def _declaring_single(action: Any) -> Any:
    match action:
        case DeclareQueue(queue=queue):
            return msgspec.structs.replace(action, queue=_on_single_lane(queue))
        case ImportDefinitions(definitions=document):
            queues = [
                {**queue, "arguments": {**queue.get("arguments", {}), SINGLE_LANE: True}}
                for queue in document.get("queues", [])
            ]
            return msgspec.structs.replace(action, definitions={**document, "queues": queues})
        case _:
            return action


class File(msgspec.Struct, frozen=True):
    """The readable scenarios of a file, and the problems of the others."""

    scenarios: tuple[Scenario, ...]
    problems: tuple[Problem, ...] = ()


def parse_file(text: bytes | str, name: str) -> File:
    """Read a file with one scenario or an array of them.

    Args:
        name: the id of scenarios without one; in an array, their index is appended.
    """
    document, problems = decode(text)
    if document is None and problems:
        return File((), tuple(problems))
    if not isinstance(document, list):
        return _gathered([(document, name, "", problems)])
    if not document:
        return File((), (Problem(DOCUMENT, "has no scenarios"),))
    parts = []
    for index, item in enumerate(document):
        where = f"[{index}]"
        own = [problem for problem in problems if problem.where.startswith(where)]
        parts.append((item, f"{name}{where}", where, own))
    elsewhere = [problem for problem in problems if not problem.where.startswith("[")]
    file = _gathered(parts)
    return msgspec.structs.replace(file, problems=(*elsewhere, *file.problems))


def parse_scenario(text: bytes | str, name: str) -> Scenario:
    """Read a file with one scenario; see `parse_file`.

    Raises:
        MalformedScenarioError: with every problem found.
    """
    file = parse_file(text, name)
    if not file.problems and len(file.scenarios) == 1:
        return file.scenarios[0]
    raise MalformedScenarioError(file.problems or [Problem(DOCUMENT, "has several scenarios")])


def _gathered(parts: list[tuple[object, str, str, list[Problem]]]) -> File:
    scenarios: list[Scenario] = []
    problems: list[Problem] = []
    for document, name, where, unusable in parts:
        if unusable:
            problems += unusable
            continue
        try:
            scenarios.append(_read(document, name, where))
        except MalformedScenarioError as error:
            problems += error.problems
    return File(tuple(scenarios), tuple(problems))


def _read(document: object, name: str, where: str) -> Scenario:
    if not isinstance(document, dict):
        problem = Problem(where or DOCUMENT, f"expected an object, got {json_type(document)}")
        raise MalformedScenarioError([problem])
    report = Report()
    fields = CommandFields(document, where, report)
    scenario = Scenario(
        fields.text("id", name),
        fields.text("title", ""),
        declarations_of_client(fields.value("definitions"), fields.at("definitions"), report),
        read_steps(fields.value("steps"), fields.at("steps"), report),
        fields.whole("end_ms", 0, 0, MAX_MS),
        _outcomes(fields),
        read_expectations(fields.value("expect"), fields.at("expect"), report),
        tuple(report.skipped),
    )
    _check_end(fields, scenario)
    if report.problems:
        raise MalformedScenarioError(report.problems)
    unknown = [Problem(path, what) for path, what in fields.unknown(DESCRIPTIVE)]
    return msgspec.structs.replace(scenario, skipped=(*scenario.skipped, *unknown))


def _check_end(fields: CommandFields, scenario: Scenario) -> None:
    where = fields.at("end_ms")
    end_ms = fields.value("end_ms")
    if end_ms is None:
        fields.report.problem(where, "is missing")
    elif scenario.steps and end_ms == scenario.end_ms < scenario.steps[-1].at_ms:
        fields.report.problem(where, f"is before the last step, at {scenario.steps[-1].at_ms}")


def _outcomes(fields: CommandFields) -> dict[str, dict[str, Any]]:
    outcomes = fields.value("outcomes")
    where = fields.at("outcomes")
    if outcomes is None:
        return {}
    if not isinstance(outcomes, dict):
        fields.report.problem(where, f"expected an object, got {json_type(outcomes)}")
        return {}
    for version, outcome in outcomes.items():
        if not isinstance(outcome, dict):
            what = f"expected an object, got {json_type(outcome)}"
            fields.report.problem(f"{where}.{version}", what)
    return outcomes


# -- files


class Read(NamedTuple):
    """A file that was read: its name and content."""

    name: str
    file: File


def read_files(names: list[str]) -> Iterator[Read]:
    """Read the scenarios of files and directories, one file after the other.

    Files that cannot be found or read yield a problem; nothing is raised.
    """
    for name in names:
        try:
            paths = _files_of(Path(name))
        except OSError as error:
            yield _unreadable(name, _words(error))
            continue
        if not paths:
            yield _unreadable(name, "has no *.json files")
        for path in paths:
            yield _read_file(path)


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = (entry for entry in path.iterdir() if entry.suffix == ".json" and entry.is_file())
    return sorted(entry for entry in found if not entry.name.startswith("."))


def _read_file(path: Path) -> Read:
    try:
        text = path.read_bytes()
    except OSError as error:
        return _unreadable(str(path), _words(error))
    return Read(str(path), parse_file(text, path.stem))


def _unreadable(name: str, what: str) -> Read:
    return Read(name, File((), (Problem(DOCUMENT, what),)))


def _words(error: OSError) -> str:
    """The reason of an error, such as `no such file or directory`."""
    reason = error.strerror or "cannot be read"
    return reason[0].lower() + reason[1:]


def decode(text: bytes | str) -> tuple[Any, list[Problem]]:
    """Decode JSON text; return the document and the problems of its values.

    Values with problems must not be used.
    """
    repeated: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _value in pairs]
            repeated.extend(name for name in found if names.count(name) > 1)
        return found

    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        document = json.loads(text, parse_int=_integer, object_pairs_hook=members)
    except UnicodeDecodeError as error:
        what = f"is not UTF-8: byte {error.object[error.start]:#04x} at position {error.start}"
        return None, [Problem(DOCUMENT, what)]
    except RecursionError:
        return None, [Problem(DOCUMENT, f"is nested more than {MAX_DEPTH} levels deep")]
    except ValueError as error:
        return None, [Problem(DOCUMENT, f"is not JSON: {error}")]
    problems = [
        Problem(DOCUMENT, f"an object names its member {name!r} twice")
        for name in dict.fromkeys(repeated)
    ]
    return document, [*problems, *_unusable(document)]


def _integer(digits: str) -> int:
    """Read an integer; one with too many digits for Python becomes one that is too large."""
    return int(digits) if len(digits) <= _DIGITS else _TOO_BIG


def _unusable(document: Any) -> Iterator[Problem]:
    """The values that JSON or AMQP cannot express, in document order."""
    work: list[tuple[str, int, Any]] = [("", 0, document)]
    while work:
        where, depth, value = work.pop()
        if isinstance(value, list | dict):
            if depth == MAX_DEPTH:
                path = where if len(where) <= _MAX_PATH else f"{where[:_MAX_PATH]}..."
                yield Problem(path, f"is nested more than {MAX_DEPTH} levels deep")
                continue
            inner = [(at, depth + 1, item) for at, item in _inner(where, value)]
            work.extend(reversed(inner))
            if isinstance(value, dict):
                yield from (
                    Problem(where or DOCUMENT, f"the name {name!r} {_NO_TEXT}")
                    for name in value
                    if not _is_text(name)
                )
        elif what := _complaint(value):
            yield Problem(where or DOCUMENT, what)


def _inner(where: str, value: list[Any] | dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"{where}[{index}]", item) for index, item in enumerate(value))
        return
    for name, item in value.items():
        yield _member(where, name), item


def _member(where: str, name: str) -> str:
    if not name.isprintable():
        return f"{where}[{name!r}]"
    return f"{where}.{name}" if where else name


def _complaint(value: Any) -> str:
    """What is wrong with a value; empty if nothing is."""
    if isinstance(value, str):
        return "" if _is_text(value) else _NO_TEXT
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    if isinstance(value, int) and value not in INTEGERS:
        return "is a number beyond 64 bits"
    return ""


_NO_TEXT = "has half of a surrogate pair, which is not valid text"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
