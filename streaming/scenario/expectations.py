"""The `expect` member: the messages that should be in the queues at the end.

    "expect": {"parking": [{"body": "order 2", "reasons": ["rejected"]}], "work": [], "gone": null}

Messages are in queue order. A message without body or reasons matches any; a message may also be
just its body. `reasons` are those of its deaths, the newest first, as in `x-death`. null means that
the queue no longer exists. Two parallel arrays are equivalent:
`{"bodies": ["order 2"], "reasons": [["rejected"]]}`.
"""

from typing import Any, NamedTuple

from topology.definitions.json_object import Fields, Report
from topology.values import json_type


class Expected(NamedTuple):
    """One expected message; None matches anything."""

    body: str | None
    reasons: list[str] | None


Expectations = dict[str, list[Expected] | None]
"""Queue -> its messages; None if it should not exist."""


def read_expectations(document: object, where: str, report: Report) -> Expectations | None:
    """Read the expectations of a scenario; None if it has none."""
    if document is None:
        return None
    if not isinstance(document, dict):
        report.problem(where, f"expected an object, got {json_type(document)}")
        return None
    return {
        queue: _messages(messages, f"{where}.{queue}", report)
        for queue, messages in document.items()
    }


def _messages(document: object, where: str, report: Report) -> list[Expected] | None:
    match document:
        case None:
            return None
        case list():
            return [
                _message(message, f"{where}[{index}]", report)
                for index, message in enumerate(document)
            ]
        case dict():
            return _parallel(document, where, report)
        case _:
            report.problem(where, f"expected an array or null, got {json_type(document)}")
            return None


def _message(document: object, where: str, report: Report) -> Expected:
    if isinstance(document, str):
        return Expected(document, None)
    fields = Fields(document, where, report)
    body = None if fields.value("body") is None else fields.text("body")
    reasons = fields.value("reasons")
    for path, what in fields.unknown():
        report.problem(path, what)
    return Expected(body, _reasons(reasons, fields.at("reasons"), report))


def _parallel(document: dict[str, Any], where: str, report: Report) -> list[Expected]:
    fields = Fields(document, where, report)
    columns = {name: fields.value(name) for name in ("bodies", "reasons")}
    for path, what in fields.unknown():
        report.problem(path, what)
    given = {name: column for name, column in columns.items() if column is not None}
    for name, column in given.items():
        if not isinstance(column, list):
            report.problem(fields.at(name), f"expected an array, got {json_type(column)}")
            return []
    lengths = {len(column) for column in given.values() if isinstance(column, list)}
    if len(lengths) != 1:
        report.problem(where, "needs bodies, or reasons, or both in equal number")
        return []
    (length,) = lengths
    nothing = [None] * length
    bodies: Any = given.get("bodies", nothing)
    reasons: Any = given.get("reasons", nothing)
    for index, body in enumerate(bodies):
        if body is not None and not isinstance(body, str):
            what = f"expected a string, got {json_type(body)}"
            report.problem(f"{where}.bodies[{index}]", what)
    return [
        Expected(body, _reasons(reason, f"{where}.reasons[{index}]", report))
        for index, (body, reason) in enumerate(zip(bodies, reasons, strict=True))
    ]


def _reasons(document: object, where: str, report: Report) -> list[str] | None:
    """Reasons as an array, or a single one as a string."""
    if document is None:
        return None
    if isinstance(document, str):
        return [document]
    if isinstance(document, list) and all(isinstance(reason, str) for reason in document):
        return document
    report.problem(where, "expected an array of strings")
    return None


def reasons_of(message: dict[str, Any]) -> list[str]:
    """The reasons of a message's deaths in an outcome, the newest first."""
    deaths = (message.get("headers") or {}).get("x-death")
    if not isinstance(deaths, list):
        return []
    return [str(death.get("reason")) for death in deaths if isinstance(death, dict)]
