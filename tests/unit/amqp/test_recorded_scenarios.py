"""Every recorded scenario plays through AMQP as RabbitMQ played it, on both versions."""

import pytest

from streaming.scenario.compare import compare
from streaming.scenario.document import VERSIONS
from tests.amqp_scenarios import play
from tests.recordings import recorded_scenarios

PARTS = {"golden/": 238, "fuzz/fuzz-": 230, "fuzz/limits-": 71, "fuzz/rings-": 73}
"""The number of recordings by the prefix of their names."""


def differences(scenario, compat):
    """The differences between a scenario played through AMQP and its recording."""
    recorded = scenario.outcomes[VERSIONS[compat]]
    outcome = play(scenario, compat)
    found = compare(recorded, outcome)
    return found if found or outcome == recorded else ["the text of an error differs"]


@pytest.mark.parametrize("compat", VERSIONS)
@pytest.mark.parametrize(("part", "count"), PARTS.items())
def test_a_recorded_scenario_plays_through_amqp_as_rabbitmq_played_it(part, count, compat):
    scenarios = recorded_scenarios(part)

    differing = {
        scenario.id: found for scenario in scenarios if (found := differences(scenario, compat))
    }

    assert len(scenarios) == count
    assert differing == {}
