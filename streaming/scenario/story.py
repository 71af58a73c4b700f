"""The story of a scenario for people: what happened to each message, when and why.

It has the queues with their settings, the steps with their effects, the final messages with their
death records, and the path of each message in one line.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from streaming.broker.events import Kind
from streaming.scenario.core_broker import CoreBroker
from streaming.scenario.document import VERSIONS, Scenario
from streaming.scenario.narration import MORE, Narration, News, Sentence, Tone
from streaming.scenario.play import Outcome, Phase, Player
from streaming.scenario.steps import Publish
from streaming.scenario.wording import (
    counted,
    exchange_words,
    keys_words,
    queue_words,
    quoted,
    step_words,
)
from topology.values import Compat


class Line(NamedTuple):
    """One line of the story; terminals colour it by its tone."""

    text: str
    tone: Tone = "plain"


INDENT = " " * 12

_MOVES = frozenset(
    {
        Kind.ENQUEUED,
        Kind.REQUEUED,
        Kind.DIED,
        Kind.HELD,
        Kind.DELETED,
        Kind.REROUTED,
        Kind.REFUSED,
        Kind.TOPOLOGY,
    }
)
"""The events that are told while the queues are emptied."""


def tell(scenario: Scenario, compat: Compat) -> list[Line]:
    """Play a scenario and tell its story."""
    return Story(scenario, compat).tell()


class Story:
    """The story of one scenario; it watches the player (`Watcher`)."""

    def __init__(self, scenario: Scenario, compat: Compat) -> None:
        self._scenario = scenario
        self._compat = compat
        self._names = _names(scenario)
        self._broker = CoreBroker(compat)
        self._player = Player(scenario, self._broker, self)
        self._narration = Narration(self._broker, self._names)
        self._lines: list[Line] = []
        self._paths: list[Line] = []
        self._published = 0

    def tell(self) -> list[Line]:
        """Play it."""
        scenario = self._scenario
        self._say(f"{scenario.id}: {scenario.title}" if scenario.title else scenario.id, "title")
        self._say(f"as RabbitMQ {VERSIONS[self._compat]} behaves", "quiet")
        outcome = self._player.play()
        if "setup_error" not in outcome:
            self._tell_end(outcome)
        return self._lines

    def _say(self, text: str, tone: Tone = "plain") -> None:
        self._lines.append(Line(text, tone))

    # -- the phases

    def saw(self, phase: Phase, result: dict[str, Any], step: int | None) -> None:
        """Notify with the step's result as recorded; an `error` if definitions were refused."""
        news = self._narration.news()
        match phase:
            case "declared":
                self._tell_topology(result)
            case "waited":
                self._tell_waiting(news)
            case "stepped":
                assert step is not None, "a step has a number"
                self._tell_step(step, result, news)
            case "ended":
                self._paths = list(self._tell_paths())
            case "emptied":
                self._tell_emptying(news)

    def _tell_topology(self, result: dict[str, Any]) -> None:
        if "error" in result:
            error = result["error"]
            what = f"the broker refuses the definitions: {error['code']} {error['text']}"
            self._say(what, "bad")
            return
        shard = self._broker.shard
        for name, declaration in sorted(shard.vhost.queues.items()):
            rules = queue_words(shard.state.queues.settings_for(declaration))
            self._say(f"{MORE}queue {quoted(name)}: {rules}", "quiet")
        self._say("")

    def _tell_waiting(self, news: list[News]) -> None:
        """What happened between steps."""
        at_ms = None
        for item in news:
            if item.at_ms != at_ms:
                at_ms = item.at_ms
                self._say(f"{_clock(at_ms)}time passes", "quiet")
            self._say(f"{INDENT}{item.text}", item.tone)

    def _tell_step(self, index: int, result: dict[str, Any], news: list[News]) -> None:
        step = self._scenario.steps[index]
        name = ""
        if isinstance(step.action, Publish):
            name = self._names[self._published]
            self._published += 1
        self._say(f"{_clock(step.at_ms)}{step_words(step, name)}", "head")
        if step.comment:
            self._say(f"{INDENT}# {' '.join(step.comment.split())}", "quiet")
        for item in news:
            self._say(f"{INDENT}{item.text}", item.tone)
        if "ready" in result:
            self._say(f"{INDENT}{result['ready']}")
        if result.get("messages") == []:
            self._say(f"{INDENT}there is none", "quiet")
        if result.get("confirm") == "nack":
            self._say(f"{INDENT}the publisher gets a nack", "bad")

    # -- the end

    def _tell_emptying(self, news: list[News]) -> None:
        self._say("")
        self._say(f"{_clock(self._scenario.end_ms)}the end", "head")
        moved = [item for item in news if item.kind in _MOVES]
        if moved:
            what = "consumers are cancelled; then the queues are emptied, head by head"
            self._say(f"{INDENT}{what}", "quiet")
        for item in moved:
            self._say(f"{INDENT}{item.text}", item.tone)

    def _tell_end(self, outcome: Outcome) -> None:
        for text, tone in _final_state(outcome):
            self._say(text, tone)
        if self._paths:
            self._say("")
            self._say("the path of each message", "head")
            self._lines += self._paths

    def _tell_paths(self) -> Iterator[Line]:
        for offset, name in enumerate(self._names):
            paths = self._narration.paths.of_message(offset)
            if len(paths) == 1:
                yield Line(f"{MORE}{name}: {paths[0]}")
            else:
                yield Line(f"{MORE}{name}")
                yield from (Line(f"{MORE * 2}{path}") for path in paths)


def _clock(at_ms: int) -> str:
    return f"{at_ms:>7} ms  "


def _names(scenario: Scenario) -> list[str]:
    """The names of the messages in publishing order: their bodies, numbered if repeated."""
    bodies = [step.action.body for step in scenario.steps if isinstance(step.action, Publish)]
    occurrences = Counter(bodies)
    seen: Counter[str] = Counter()
    names = []
    for body in bodies:
        seen[body] += 1
        names.append(quoted(body) + (f" #{seen[body]}" if occurrences[body] > 1 else ""))
    return names


def _final_state(outcome: Outcome) -> Iterator[Sentence]:
    """Describe the outcome's final observation."""
    for queue, messages in outcome["queues"].items():
        there = f"{MORE}queue {quoted(queue)}"
        if messages is None:
            yield f"{there} no longer exists", "quiet"
            continue
        yield f"{there}: {_count(messages)}", "plain"
        for message in messages:
            yield from _message(message)
        for entry in outcome["unacked"].get(queue, ()):
            yield f"{MORE * 2}{quoted(entry['body'])} is still unacked as {entry['ref']}", "plain"
    for queue, messages in outcome.get("second_pass", {}).items():
        yield f"{MORE}queue {quoted(queue)}, a little later: {_count(messages)}", "plain"
        for message in messages:
            yield from _message(message)


def _count(messages: list[dict[str, Any]]) -> str:
    return counted(len(messages), "message") if messages else "empty"


def _message(message: dict[str, Any]) -> Iterator[Sentence]:
    redelivered = ", redelivered" if message["redelivered"] else ""
    yield f"{MORE * 2}{quoted(message['body'])}{redelivered}", "plain"
    headers = message["headers"] or {}
    deaths = headers.get("x-death")
    if not isinstance(deaths, list):
        return
    for index, death in enumerate(deaths):
        if isinstance(death, dict):
            yield f"{MORE * 3}x-death[{index}]: {_death(death)}", "moved"
    for which in ("first", "last"):
        names = [f"x-{which}-death-{part}" for part in ("reason", "queue", "exchange")]
        if all(isinstance(headers.get(name), str) for name in names):
            reason, queue, exchange = (headers[name] for name in names)
            words = f"{reason}, {quoted(queue)}, {quoted(exchange)}"
            yield f"{MORE * 3}x-{which}-death-reason, -queue, -exchange: {words}", "quiet"


def _death(death: dict[str, Any]) -> str:
    """An entry of x-death; a client may have written anything into it."""
    count = death.get("count")
    words = f"{death.get('reason')} in queue {quoted(str(death.get('queue')))}"
    words += ", once" if count == 1 else f", {count} times"
    exchange, keys = death.get("exchange"), death.get("routing-keys")
    if isinstance(exchange, str):
        words += f"; it came through {exchange_words(exchange)}"
    if isinstance(keys, list) and keys:
        words += f" with {keys_words(str(key) for key in keys)}"
    if "original-expiration" in death:
        words += f"; its expiration was {death['original-expiration']} ms"
    return words
