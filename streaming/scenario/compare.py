"""Compare an outcome with a recording and with the scenario's expectations.

If lists of messages differ in their bodies, that is one difference between lists of bodies; only
lists with equal bodies are compared message by message. Lists of deaths likewise. Errors are
compared by code, since RabbitMQ changes their text between versions.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from streaming.scenario.document import VERSIONS, Scenario
from streaming.scenario.expectations import Expectations, Expected, reasons_of
from topology.suggestions import did_you_mean
from topology.values import Compat


class Difference(NamedTuple):
    """A difference in an outcome, as text; `against` is `recorded` or `expected`."""

    against: str
    where: str
    wanted: str
    found: str


class Comparison(NamedTuple):
    """What a scenario's outcome was compared with, as text, and how it differs."""

    against: tuple[str, ...]
    differences: tuple[Difference, ...]


def compare_outcome(scenario: Scenario, outcome: dict[str, Any], compat: Compat) -> Comparison:
    """Compare an outcome with the scenario's recording and expectations."""
    version = VERSIONS[compat]
    against: list[str] = []
    differences: list[Difference] = []
    recorded = scenario.outcomes.get(version)
    if recorded is not None:
        against.append(f"the record of RabbitMQ {version}")
        names = {
            index: f"steps[{index}] {step.op} at {step.at_ms} ms"
            for index, step in enumerate(scenario.steps)
        }
        differences += compare(recorded, outcome, names)
    if scenario.expect is not None:
        against.append("what it expects")
        differences += _unexpected(scenario.expect, outcome)
    return Comparison(tuple(against), tuple(differences))


# -- with a recording


def compare(
    recorded: dict[str, Any], outcome: dict[str, Any], step_names: dict[int, str] | None = None
) -> list[Difference]:
    """The differences between an outcome and a recorded one, in the outcome's order."""
    names = step_names or {}
    differences: list[Difference] = []
    for member in {**outcome, **recorded}:
        if member == "steps" and _has_steps(recorded) and _has_steps(outcome):
            differences += _of_steps(recorded["steps"], outcome["steps"], names)
        else:
            wanted, found = recorded.get(member, _ABSENT), outcome.get(member, _ABSENT)
            differences += _of_values(member, wanted, found)
    return differences


_ABSENT = object()
"""A missing value."""

_WORD_LENGTH = 200


def _has_steps(outcome: dict[str, Any]) -> bool:
    steps = outcome.get("steps")
    return isinstance(steps, list) and all(
        isinstance(result, dict) and isinstance(result.get("step"), int) for result in steps
    )


def _of_steps(
    recorded: list[dict[str, Any]], found: list[dict[str, Any]], names: dict[int, str]
) -> Iterator[Difference]:
    """Compare results of steps by index, so that a missing one does not shift the others."""
    ours = {result["step"]: result for result in found}
    theirs = {result["step"]: result for result in recorded}
    for index in sorted(ours.keys() | theirs.keys()):
        where = names.get(index, f"steps[{index}]")
        yield from _of_values(where, theirs.get(index, _ABSENT), ours.get(index, _ABSENT))


def _of_values(where: str, wanted: Any, found: Any) -> Iterator[Difference]:
    if type(wanted) is not type(found):
        yield Difference("recorded", where, _words(wanted), _words(found))
    elif isinstance(wanted, dict):
        for member in {**found, **wanted}:
            if member == "text" and wanted.keys() == found.keys() == {"code", "text"}:
                continue
            inner = (wanted.get(member, _ABSENT), found.get(member, _ABSENT))
            yield from _of_values(f"{where}.{member}", *inner)
    elif isinstance(wanted, list):
        yield from _of_lists(where, wanted, found)
    elif wanted != found:
        yield Difference("recorded", where, _words(wanted), _words(found))


def _of_lists(where: str, wanted: list[Any], found: list[Any]) -> Iterator[Difference]:
    wanted_gist, found_gist = _gist(wanted), _gist(found)
    if len(wanted) != len(found) or wanted_gist != found_gist:
        yield Difference("recorded", where, wanted_gist, found_gist)
        return
    for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
        yield from _of_values(f"{where}[{index}]", one, other)


def _gist(items: list[Any]) -> str:
    """A list as text: the bodies of messages, the queues and reasons of deaths."""
    return ", ".join(_item_gist(item) for item in items) or "nothing"


def _item_gist(item: Any) -> str:
    match item:
        case {"ref": str(ref), "body": str(body)}:
            return f"{body!r} as {ref}"
        case {"body": str(body)}:
            return repr(body)
        case {"reason": str(reason), "queue": str(queue)}:
            return f"{reason} in {queue!r}"
        case _:
            return _words(item)


def _words(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, list):
        return _gist(value)
    text = repr(value)
    return text if len(text) <= _WORD_LENGTH else f"{text[:_WORD_LENGTH]}..."


# -- with expectations


def _unexpected(expect: Expectations, outcome: dict[str, Any]) -> Iterator[Difference]:
    if "setup_error" in outcome:
        error = outcome["setup_error"]
        yield Difference("expected", "definitions", "accepted", f"{error['code']} {error['text']}")
        return
    for queue, wanted in expect.items():
        where = f"queues.{queue}"
        if queue not in outcome["queues"]:
            declared = f"was never declared{did_you_mean(queue, outcome['queues'])}"
            yield Difference("expected", where, _listed(wanted), declared)
            continue
        messages = outcome["queues"][queue]
        found = None
        if messages is not None:
            found = [Expected(message["body"], reasons_of(message)) for message in messages]
        if not _fit(wanted, found):
            yield Difference("expected", where, _listed(wanted), _listed(found))


def _fit(wanted: list[Expected] | None, found: list[Expected] | None) -> bool:
    if wanted is None or found is None:
        return wanted is found
    return len(wanted) == len(found) and all(
        expected.body in {None, message.body} and expected.reasons in (None, message.reasons)
        for expected, message in zip(wanted, found, strict=True)
    )


def _listed(messages: list[Expected] | None) -> str:
    if messages is None:
        return "no such queue"
    return ", ".join(map(_expected, messages)) or "nothing"


def _expected(message: Expected) -> str:
    words = "any message" if message.body is None else repr(message.body)
    if message.reasons is None:
        return words
    return (
        f"{words} dead: {', '.join(message.reasons)}" if message.reasons else f"{words} never dead"
    )
