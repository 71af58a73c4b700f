"""The story of a scenario, to be read: what happened to which message, when and why.

the queues and their rules; the steps, with what each caused; what is left, with its x-death;
the life of each message in one line
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from streaming.broker.events import Kind
from streaming.scenario.core_broker import CoreBroker
from streaming.scenario.document import VERSIONS, Scenario
from streaming.scenario.final_state import remains
from streaming.scenario.narration import MORE, Narration, News, Tone
from streaming.scenario.play import Outcome, Phase, Player
from streaming.scenario.steps import Publish
from streaming.scenario.wording import queue_words, quoted, step_words
from topology.values import Compat


class Line(NamedTuple):
    """One line of the story; the tone is for terminals that have colours."""

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
"""What is worth telling of the final observation."""


def tell(scenario: Scenario, compat: Compat) -> list[Line]:
    """Play a scenario and tell what happened."""
    return Story(scenario, compat).tell()


class Story:
    """One scenario in the course of being told: a `Watcher` of its player."""

    def __init__(self, scenario: Scenario, compat: Compat) -> None:
        self._scenario = scenario
        self._compat = compat
        self._names = _names(scenario)
        self._broker = CoreBroker(compat)
        self._player = Player(scenario, self._broker, self)
        self._narration = Narration(self._broker, self._names)
        self._lines: list[Line] = []
        self._lives: list[Line] = []
        self._published = 0

    def tell(self) -> list[Line]:
        """Play it."""
        scenario = self._scenario
        self._say(f"{scenario.id}: {scenario.title}" if scenario.title else scenario.id, "title")
        self._say(f"as RabbitMQ {VERSIONS[self._compat]} does it", "quiet")
        outcome = self._player.play()
        if "setup_error" not in outcome:
            self._tell_end(outcome)
        return self._lines

    def _say(self, text: str, tone: Tone = "plain") -> None:
        self._lines.append(Line(text, tone))

    # -- the phases

    def saw(self, phase: Phase, result: dict[str, Any], step: int | None) -> None:
        """See `Watcher`."""
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
                self._lives = list(self._tell_lives())
            case "emptied":
                self._tell_emptying(news)

    def _tell_topology(self, result: dict[str, Any]) -> None:
        if "error" in result:
            error = result["error"]
            what = f"the broker refuses the definitions: {error['code']} {error['text']}"
            self._say(what, "bad")
            return
        shard = self._broker.shard
        for name, declaration in sorted(shard.topology.queues.items()):
            rules = queue_words(shard.queues.settings_for(declaration))
            self._say(f"{MORE}queue {quoted(name)}: {rules}", "quiet")
        self._say("")

    def _tell_waiting(self, news: list[News]) -> None:
        """What time alone has caused."""
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
        for text, tone in remains(outcome):
            self._say(text, tone)
        if self._lives:
            self._say("")
            self._say("the life of each message", "head")
            self._lines += self._lives

    def _tell_lives(self) -> Iterator[Line]:
        for offset, name in enumerate(self._names):
            ways = list(self._narration.lives.of_message(offset))
            if len(ways) == 1:
                yield Line(f"{MORE}{name}: {ways[0]}")
            else:
                yield Line(f"{MORE}{name}")
                yield from (Line(f"{MORE * 2}{way}") for way in ways)


def _clock(at_ms: int) -> str:
    return f"{at_ms:>7} ms  "


def _names(scenario: Scenario) -> list[str]:
    """What the messages are called, in the order of publishing: their bodies, told apart."""
    bodies = [step.action.body for step in scenario.steps if isinstance(step.action, Publish)]
    occurrences = Counter(bodies)
    seen: Counter[str] = Counter()
    names = []
    for body in bodies:
        seen[body] += 1
        names.append(quoted(body) + (f" #{seen[body]}" if occurrences[body] > 1 else ""))
    return names
