"""Every recorded scenario plays as RabbitMQ played it, on both versions, to the last header.

The recordings lie beside the checkout, in ../shared/semantics: they are larger than the project.
"""

import os
from pathlib import Path

import pytest

from streaming.scenario.compare import compare
from streaming.scenario.document import VERSIONS
from streaming.scenario.files import read_files
from streaming.scenario.play import play

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "semantics"
PARTS = {"golden": 193, "fuzz-": 230, "limits-": 71, "rings-": 73}
"""The parts of the recordings, by folder or first letters: how many there are at least."""

EXCEPTED: dict[tuple[str, str], str] = {}
"""Corners where the core is right not to follow the record: (id, compat) -> why.

None is needed. An entry whose scenario plays as recorded fails, and so does one that names nothing.
"""

IN_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}

pytestmark = pytest.mark.skipif(
    not RECORDINGS.is_dir() and not IN_CI,
    reason=f"the recordings are not part of the repository, and {RECORDINGS} does not exist",
)


def scenarios_of(part):
    """The recorded scenarios of one part."""
    folder = part if part == "golden" else "fuzz"
    names = sorted((RECORDINGS / folder).glob("*.json"))
    chosen = [str(path) for path in names if part == folder or path.name.startswith(part)]
    files = [read.file for read in read_files(chosen)]
    assert [file.problems for file in files if file.problems] == []
    return [scenario for file in files for scenario in file.scenarios]


def differences(scenario, compat):
    """How a scenario's play differs from its record: in everything, error texts included."""
    recorded = scenario.outcomes[VERSIONS[compat]]
    outcome = play(scenario, compat)
    found = compare(recorded, outcome)
    return found if found or outcome == recorded else ["the text of an error differs"]


def test_the_recordings_are_there():
    """A continuous integration that lacks them would be green and prove nothing."""
    assert RECORDINGS.is_dir(), f"the recordings are missing: {RECORDINGS} does not exist"
    assert [part for part, least in PARTS.items() if len(scenarios_of(part)) < least] == []


@pytest.mark.parametrize("compat", VERSIONS)
@pytest.mark.parametrize("part", PARTS)
def test_a_recorded_scenario_plays_as_rabbitmq_played_it(part, compat):
    differing = {
        scenario.id: found
        for scenario in scenarios_of(part)
        if (scenario.id, compat) not in EXCEPTED and (found := differences(scenario, compat))
    }

    assert differing == {}


def test_nothing_of_a_recorded_scenario_is_left_out():
    left_out = {
        scenario.id: scenario.left_out
        for part in PARTS
        for scenario in scenarios_of(part)
        if scenario.left_out
    }

    assert left_out == {}


def test_every_exception_has_a_reason_and_is_needed():
    scenarios = {scenario.id: scenario for part in PARTS for scenario in scenarios_of(part)}
    unknown = [key for key in EXCEPTED if key[0] not in scenarios or key[1] not in VERSIONS]
    needless = [
        (name, compat)
        for name, compat in EXCEPTED
        if name in scenarios and not differences(scenarios[name], compat)
    ]

    assert unknown == []
    assert needless == []
    assert [key for key, reason in EXCEPTED.items() if not reason.strip()] == []
