"""The shipped examples match their titles."""

from pathlib import Path

import pytest

from streaming.cli.topology.definitions_file import load
from streaming.scenario.compare import Comparison, compare_outcome
from streaming.scenario.document import parse_scenario
from streaming.scenario.play import play
from topology.analysis.lint import lint

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SCENARIOS = sorted(EXAMPLES.glob("*.json"))
DEFINITIONS = (*SCENARIOS, EXAMPLES / "shop" / "definitions.json")


def played(name, compat="4.0"):
    """The outcome of an example."""
    return play(parse_scenario((EXAMPLES / name).read_bytes(), name), compat)


@pytest.mark.parametrize("compat", ["4.0", "3.10"])
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_an_example_ends_as_it_expects(path, compat):
    scenario = parse_scenario(path.read_bytes(), path.name)

    verdict = compare_outcome(scenario, play(scenario, compat), compat)

    assert scenario.id == path.stem
    assert verdict == Comparison(("what it expects",), ())


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: path.stem)
def test_an_examples_topology_is_fully_supported_and_free_of_lint(path):
    loaded = load(path)

    assert loaded.skipped == ()
    assert [lint(definitions) for definitions in loaded.vhosts.values()] == [()]


def test_the_article_reads_its_four_facts_from_the_dead_letter():
    (message,) = played("dead-letter-headers.json")["queues"]["Dead_Letter_Queue"]

    newest = message["headers"]["x-death"][0]
    facts = ("x-death" in message["headers"], newest["reason"], newest["exchange"])
    assert ";".join((str(facts[0]).lower(), *facts[1:], message["routing_key"])) == (
        "true;expired;Direct_Test;New_Key_For_DLX_Msg"
    )


def test_a_mandatory_message_with_an_alternate_exchange_is_not_returned():
    outcome = played("or-else.json")

    returned = {result["step"]: "returned" in result for result in outcome["steps"]}
    assert returned == {0: False, 1: False, 2: False, 3: True}
