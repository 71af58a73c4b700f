"""`dlx simulate`: scenario files on the broker core: told as a story, as JSON, or tested."""

import json
import logging
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INVALID, EXIT_OK
from streaming.cli.terminal import printable
from streaming.cli.topology import CompatChoice, CompatOption
from topology.values import Compat

if TYPE_CHECKING:
    from streaming.scenario.compare import Verdict
    from streaming.scenario.document import Scenario
    from streaming.scenario.files import Read
    from streaming.scenario.story import Line

Engine = Callable[["Scenario", Compat], dict[str, Any]]
"""Plays a scenario and gives its outcome."""

MOST_DIFFERENCES = 20
"""Printed of one scenario."""


class EngineChoice(StrEnum):
    """What scenarios are played on."""

    CORE = "core"
    SPARK = "spark"


def simulate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR...",
            help="Scenario files; of a directory its *.json, without its folders.",
        ),
    ],
    *,
    compat: CompatOption = CompatChoice.RABBITMQ_4_0,
    engine: Annotated[
        EngineChoice,
        typer.Option(
            "--engine",
            help="core: the broker alone, at once. spark: the whole pipeline, a real Kafka, Spark "
            "and Delta, all scenarios in one job; takes a minute or more.",
        ),
    ] = EngineChoice.CORE,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare with the recorded outcome and with `expect`."),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print outcomes on stdout, one a line; all else on stderr."),
    ] = False,
) -> int:
    """Play scenarios: a topology, timed steps, and what comes of them.

    Tells what happened to each message. With --check it tests instead: each scenario against the
    outcome recorded from RabbitMQ (`outcomes`) and against what its author expects (`expect`).

    Exit status: 2 if a file cannot be used (the others are played all the same), else 1 if a
    scenario differed, else 0.
    """
    from streaming.scenario.files import read_files
    from streaming.scenario.play import play

    if engine is EngineChoice.CORE:
        run = _Run(play, compat.compat, check=check, as_json=as_json)
        for read in read_files(files):
            run.file(read)
        return run.finish()
    reads = list(read_files(files))
    played = _played_through_pipeline(reads, compat.compat)
    run = _Run(played, compat.compat, check=check, as_json=as_json, is_core=False)
    for read in reads:
        run.file(read)
    return run.finish()


def _played_through_pipeline(reads: "list[Read]", compat: Compat) -> Engine:
    """Play all scenarios in one job; the engine gives what came of them."""
    from rich.console import Console

    from streaming.simulation.local import play_through_pipeline

    logging.getLogger("py4j").setLevel(logging.WARNING)
    scenarios = [scenario for read in reads for scenario in read.file.scenarios]
    outcomes = play_through_pipeline(scenarios, compat, Console(stderr=True))
    played = {id(scenario): outcome for scenario, outcome in zip(scenarios, outcomes, strict=True)}
    return lambda scenario, _compat: played[id(scenario)]


class _Run:
    """One run over many files.

    Args:
        engine: what plays the scenarios.
        is_core: whether that is the core, which alone can tell why things happen. The outcome of
            another engine is compared with the story.
    """

    def __init__(
        self,
        engine: Engine,
        compat: Compat,
        *,
        check: bool,
        as_json: bool,
        is_core: bool = True,
    ) -> None:
        self._engine = engine
        self._is_core = is_core
        self._compat: Compat = compat
        self._check = check
        self._as_json = as_json
        self._malformed = False
        self._played = 0
        self._equal = 0
        self._differed = 0
        self._not_checked = 0
        self._files_of_ids: dict[str, str] = {}

    def file(self, read: "Read") -> None:
        """Say what is wrong with a file, and play what is not."""
        for problem in read.file.problems:
            self._malformed = True
            _print(f"{read.name}: {problem}", sys.stderr)
        for scenario in read.file.scenarios:
            for problem in scenario.left_out:
                _print(f"{read.name}: left out: {problem}", sys.stderr)
            if (before := self._files_of_ids.get(scenario.id)) is not None:
                what = f"the id {scenario.id!r} was used before, in {before}"
                _print(f"{read.name}: {what}", sys.stderr)
            self._files_of_ids[scenario.id] = read.name
            self._scenario(scenario, read.name)

    def _scenario(self, scenario: "Scenario", name: str) -> None:
        from streaming.scenario.story import tell

        self._played += 1
        if not (self._check or self._as_json):
            if self._played > 1:
                print()
            _print_story(tell(scenario, self._compat))
            if not self._is_core:
                self._compare_with_story(scenario, name)
            return
        outcome = self._engine(scenario, self._compat)
        if self._as_json:
            print(json.dumps({"id": scenario.id, "outcome": outcome}))
        if self._check:
            self._judge(scenario, name, outcome)

    def _compare_with_story(self, scenario: "Scenario", name: str) -> None:
        from streaming.scenario.compare import Verdict, compare
        from streaming.scenario.play import play

        found = compare(play(scenario, self._compat), self._engine(scenario, self._compat))
        if found:
            differences = tuple(difference._replace(against="story") for difference in found)
            self._differed += 1
            headline = f"{name}: {scenario.id!r}: the pipeline's outcome is not that of the story"
            self._report(headline, *_differences(Verdict(("the story",), differences)))

    def _judge(self, scenario: "Scenario", name: str, outcome: dict[str, Any]) -> None:
        from streaming.scenario.compare import judge

        verdict = judge(scenario, outcome, self._compat)
        if not verdict.against:
            self._not_checked += 1
        elif verdict.differences:
            self._differed += 1
            self._report(f"{name}: {scenario.id!r} differs", *_differences(verdict))
        else:
            self._equal += 1

    def _report(self, *lines: str) -> None:
        for line in lines:
            _print(line, sys.stderr if self._as_json else sys.stdout)

    def finish(self) -> int:
        """The last words, and the exit status."""
        if self._check:
            checked = self._equal + self._differed
            self._report(f"{self._equal} of {checked} scenarios equal")
            if self._not_checked:
                self._report(f"{self._not_checked} not checked: nothing to compare them with")
        if self._malformed:
            return EXIT_INVALID
        return EXIT_FINDINGS if self._differed else EXIT_OK


def _differences(verdict: "Verdict") -> Iterable[str]:
    for against, where, wanted, found in verdict.differences[:MOST_DIFFERENCES]:
        yield f"  {where}"
        yield f"    {against}: {wanted}"
        yield f"    {'here':>{len(against)}}: {found}"
    if len(verdict.differences) > MOST_DIFFERENCES:
        yield f"  ... and {len(verdict.differences) - MOST_DIFFERENCES} more differences"


def _print_story(lines: "Iterable[Line]") -> None:
    """Colours are for terminals; loading what makes them takes longer than the story."""
    if not sys.stdout.isatty():
        for line in lines:
            _print(line.text, sys.stdout)
        return
    from streaming.cli.colours import print_in_colour

    print_in_colour((line.text, line.tone) for line in lines)


def _print(text: str, stream: TextIO) -> None:
    print(printable(text), file=stream)
