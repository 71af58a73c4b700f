"""`dlx simulate`: runs scenario files and prints a story, JSON, or differences."""

import json
import logging
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import msgspec
import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INVALID, EXIT_OK
from streaming.cli.output import print_in_colour, printable
from streaming.cli.topology.commands import CompatOption
from streaming.cli.topology.definitions_file import ChosenVhost, VhostName, choose
from topology.declarations import Definitions
from topology.errors import Problem
from topology.values import Compat

if TYPE_CHECKING:
    from streaming.scenario.compare import Comparison
    from streaming.scenario.document import Read, Scenario
    from streaming.scenario.story import Line

Engine = Callable[["Scenario", Compat], dict[str, Any]]
"""Plays a scenario and returns its outcome."""

MAX_LANES = 1_024
MAX_DIFFERENCES = 20
"""Printed per scenario."""


def simulate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR...",
            help="Scenario files, or folders with *.json; subfolders are ignored.",
        ),
    ],
    *,
    compat: CompatOption = "4.0",
    engine: Annotated[
        Literal["core", "spark", "cluster"],
        typer.Option(
            "--engine",
            help="core: the broker alone, at once. spark: all scenarios in one job with a real "
            "Kafka, Spark and Delta; takes a minute or more. cluster: the same on two Spark "
            "workers that share no disk, with tables and checkpoint in an S3-compatible store; "
            "needs root.",
        ),
    ] = "core",
    lanes: Annotated[
        int,
        typer.Option(
            "--lanes",
            metavar="N",
            min=1,
            max=MAX_LANES,
            help="Play in a vhost of N lanes, with every queue on a single lane (x-single-lane): "
            "the outcome stays the same.",
        ),
    ] = 1,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare with the recorded outcome and with `expect`."),
    ] = False,
    definitions: Annotated[
        Path | None,
        typer.Option(
            "--definitions",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Declare what this RabbitMQ definitions file holds, instead of the scenarios' own "
            "definitions.",
        ),
    ] = None,
    vhost: VhostName = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print outcomes on stdout, one per line, and the rest on stderr."
        ),
    ] = False,
) -> int:
    """Run scenarios: a topology, timed steps, and their outcome.

    Tells what happened to each message. --check tests instead: it compares each scenario with the
    outcome recorded from RabbitMQ (`outcomes`) and with what its author expects (`expect`).

    With --definitions, the steps and expectations are tried on your own topology.

    Exit status: 2 if a file cannot be used (the others still run), else 1 if a scenario fails,
    else 0.
    """
    from streaming.scenario.document import read_files
    from streaming.scenario.play import play

    reads: Iterable[Read] = read_files(files)
    chosen = None
    if definitions is not None:
        chosen = choose(definitions, vhost, compat)
        reads = (_with_definitions(read, chosen, definitions) for read in reads)
    elif vhost is not None:
        raise typer.BadParameter("needs --definitions FILE", param_hint="--vhost")
    if lanes > 1:
        reads = map(_on_single_lanes, reads)
    is_core = engine == "core" and lanes == 1
    play_one: Engine = partial(play, lanes=lanes)
    if engine != "core":
        reads = list(reads)
        play_one = _played_through_pipeline(reads, compat, lanes, in_cluster=engine == "cluster")
    run = _Run(play_one, is_core, compat, check, as_json, chosen.name if chosen else None)
    for read in reads:
        run.file(read)
    return run.finish()


def _with_definitions(read: "Read", chosen: ChosenVhost, file: Path) -> "Read":
    """The scenarios of a file with other definitions; recorded outcomes no longer apply."""
    for scenario in read.file.scenarios:
        if scenario.definitions != Definitions():
            text = f"the definitions of {scenario.id!r} are replaced by those of {file}"
            _print(f"{read.name}: {text}", sys.stderr)
    scenarios = tuple(
        msgspec.structs.replace(
            scenario, definitions=chosen.definitions, outcomes={}, skipped=_own(scenario.skipped)
        )
        for scenario in read.file.scenarios
    )
    return read._replace(file=msgspec.structs.replace(read.file, scenarios=scenarios))


def _on_single_lanes(read: "Read") -> "Read":
    """The scenarios of a file with every queue on a single lane."""
    from streaming.scenario.document import on_single_lanes

    scenarios = tuple(map(on_single_lanes, read.file.scenarios))
    return read._replace(file=msgspec.structs.replace(read.file, scenarios=scenarios))


def _own(skipped: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """What is skipped of a scenario outside of its definitions."""
    return tuple(each for each in skipped if "definitions." not in each.where)


def _played_through_pipeline(
    reads: "Iterable[Read]", compat: Compat, lanes: int, *, in_cluster: bool
) -> Engine:
    """Run all scenarios in one job, and return an engine that knows their outcomes."""
    from rich.console import Console

    from streaming.simulation.run import play_through_pipeline

    logging.getLogger("py4j").setLevel(logging.WARNING)
    scenarios = [scenario for read in reads for scenario in read.file.scenarios]
    outcomes = play_through_pipeline(
        scenarios, compat, Console(stderr=True), lanes, in_cluster=in_cluster
    )
    played = {id(scenario): outcome for scenario, outcome in zip(scenarios, outcomes, strict=True)}
    return lambda scenario, _compat: played[id(scenario)]


@dataclass
class _Run:
    """One run over many files.

    Attributes:
        engine: plays the scenarios.
        is_core: whether that is the core with one lane. Only it can tell why things happen, so
            the story is the core's, and the outcome of another engine is compared with it.
        vhost: its name, for error texts; None for the placeholder of recordings.
    """

    engine: Engine
    is_core: bool
    compat: Compat
    check: bool
    as_json: bool
    vhost: str | None = None
    malformed: bool = False
    played: int = 0
    passed: int = 0
    differed: int = 0
    unchecked: int = 0
    files_of_ids: dict[str, str] = field(default_factory=dict)

    def file(self, read: "Read") -> None:
        """Report the problems of a file and run its valid scenarios."""
        for problem in read.file.problems:
            self.malformed = True
            _print(f"{read.name}: {problem}", sys.stderr)
        for scenario in read.file.scenarios:
            for problem in scenario.skipped:
                _print(f"{read.name}: skipped: {problem}", sys.stderr)
            if (before := self.files_of_ids.get(scenario.id)) is not None:
                text = f"the id {scenario.id!r} is already used in {before}"
                _print(f"{read.name}: {text}", sys.stderr)
            self.files_of_ids[scenario.id] = read.name
            self._scenario(scenario, read.name)

    def _scenario(self, scenario: "Scenario", name: str) -> None:
        from streaming.scenario.story import tell

        self.played += 1
        if not (self.check or self.as_json):
            if self.played > 1:
                print()
            _print_story(self._in_vhost(tell(scenario, self.compat)))
            if not self.is_core:
                self._compare_with_story(scenario, name)
            return
        outcome = self.engine(scenario, self.compat)
        if self.as_json:
            print(json.dumps({"id": scenario.id, "outcome": outcome}))
        if self.check:
            self._compare_with_recording(scenario, name, outcome)

    def _in_vhost(self, lines: "Iterable[Line]") -> "Iterable[Line]":
        from streaming.scenario.replies import VHOST

        name = VHOST if self.vhost is None else self.vhost
        return (line._replace(text=line.text.replace(VHOST, name)) for line in lines)

    def _compare_with_story(self, scenario: "Scenario", name: str) -> None:
        from streaming.scenario.compare import Comparison, compare
        from streaming.scenario.play import play

        found = compare(play(scenario, self.compat), self.engine(scenario, self.compat))
        if found:
            differences = tuple(difference._replace(against="story") for difference in found)
            self.differed += 1
            headline = f"{name}: {scenario.id!r}: the outcome is not the story's"
            self._report(headline, *_differences(Comparison(("the story",), differences)))

    def _compare_with_recording(
        self, scenario: "Scenario", name: str, outcome: dict[str, Any]
    ) -> None:
        from streaming.scenario.compare import compare_outcome

        verdict = compare_outcome(scenario, outcome, self.compat)
        if not verdict.against:
            self.unchecked += 1
        elif verdict.differences:
            self.differed += 1
            self._report(f"{name}: {scenario.id!r} failed", *_differences(verdict))
        else:
            self.passed += 1

    def _report(self, *lines: str) -> None:
        for line in lines:
            _print(line, sys.stderr if self.as_json else sys.stdout)

    def finish(self) -> int:
        """Print the summary and return the exit code."""
        if self.check:
            checked = self.passed + self.differed
            self._report(f"{self.passed} of {checked} scenarios passed")
            if self.unchecked:
                self._report(f"{self.unchecked} not checked: they have no expected outcome")
        if self.malformed:
            return EXIT_INVALID
        return EXIT_FINDINGS if self.differed else EXIT_OK


def _differences(verdict: "Comparison") -> Iterable[str]:
    for against, where, wanted, found in verdict.differences[:MAX_DIFFERENCES]:
        yield f"  {where}"
        yield f"    {against}: {wanted}"
        yield f"    {'here':>{len(against)}}: {found}"
    if len(verdict.differences) > MAX_DIFFERENCES:
        yield f"  ... and {len(verdict.differences) - MAX_DIFFERENCES} more differences"


def _print_story(lines: "Iterable[Line]") -> None:
    """Print a story, in colour in a terminal only: loading rich takes longer than the story."""
    if not sys.stdout.isatty():
        for line in lines:
            _print(line.text, sys.stdout)
        return
    print_in_colour((line.text, line.tone) for line in lines)


def _print(text: str, stream: TextIO) -> None:
    print(printable(text), file=stream)
