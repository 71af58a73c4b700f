"""`dlx simulate --engine spark`, with a fake pipeline."""

import json

import pytest

from streaming.scenario.play import play
from streaming.simulation import run

SCENARIO = {
    "id": "one",
    "definitions": {"queues": [{"name": "q"}]},
    "steps": [{"at_ms": 0, "op": "publish", "routing_key": "q", "body": "a"}],
    "end_ms": 10,
}
OTHER = {**SCENARIO, "id": "two", "steps": []}


@pytest.fixture
def pipeline(monkeypatch):
    """What it was asked to play; each outcome is the core's, changed by `change`."""
    played: list[tuple[list[str], str, bool]] = []

    def install(change=lambda outcome: outcome):
        def instead(scenarios, compat, _progress, lanes, *, in_cluster):
            played.append(([scenario.id for scenario in scenarios], compat, in_cluster))
            assert lanes == 1
            return [change(play(scenario, compat)) for scenario in scenarios]

        monkeypatch.setattr(run, "play_through_pipeline", instead)
        return played

    return install


@pytest.mark.parametrize("engine", ["spark", "cluster"])
def test_all_scenarios_of_a_call_are_played_in_one_job(dlx, write, pipeline, engine):
    played = pipeline()
    files = [write([SCENARIO, OTHER], "a.json"), write({**OTHER, "id": "three"}, "b.json")]

    status, printed, told = dlx("simulate", "--engine", engine, "--compat", "3.10", *files)

    assert played == [(["one", "two", "three"], "3.10", engine == "cluster")]
    assert (status, printed, told) == dlx("simulate", "--compat", "3.10", *files)


def test_what_the_pipeline_did_is_what_is_printed_as_json(dlx, write, pipeline):
    pipeline(lambda _outcome: {"setup_error": {"code": 1, "text": "the pipeline's"}})
    name = write(SCENARIO, "s.json")

    status, printed, _told = dlx("simulate", "--engine", "spark", "--json", name)

    assert status == 0
    assert json.loads(printed) == {
        "id": "one",
        "outcome": {"setup_error": {"code": 1, "text": "the pipeline's"}},
    }


def test_a_pipeline_outcome_that_differs_from_the_story_is_a_finding(dlx, write, pipeline):
    pipeline(lambda outcome: {**outcome, "depths": {"q": 7}})
    name = write(SCENARIO, "s.json")

    status, printed, _told = dlx("simulate", "--engine", "spark", name)

    assert status == 1
    assert "s.json: 'one'" in printed
    assert printed.splitlines()[-3:] == [
        "  depths.q",
        "    story: 1",
        "     here: 7",
    ]


def test_unreadable_files_are_told_of_and_the_others_played(dlx, write, pipeline):
    played = pipeline()
    name = write(SCENARIO, "s.json")

    status, _printed, told = dlx("simulate", "--engine", "spark", "--json", "none.json", name)

    assert played == [(["one"], "4.0", False)]
    assert status == 2
    assert told == "none.json: document: no such file or directory\n"


def test_without_scenarios_nothing_starts():
    assert run.play_through_pipeline([], "4.0") == []


def test_an_unknown_engine_is_refused(dlx, write):
    status, _printed, told = dlx("simulate", "--engine", "flink", write(SCENARIO, "s.json"))

    assert status == 2
    assert "'core'" in told
    assert "'spark'" in told
