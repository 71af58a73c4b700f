"""Every recorded scenario plays through AMQP as RabbitMQ played it, on both versions."""

import pytest

from streaming.scenario.document import VERSIONS
from tests.amqp_scenarios import play
from tests.recordings import PARTS, differences, recorded_scenarios


@pytest.mark.parametrize("compat", VERSIONS)
@pytest.mark.parametrize(("part", "count"), PARTS.items())
def test_a_recorded_scenario_plays_through_amqp_as_rabbitmq_played_it(part, count, compat):
    scenarios = recorded_scenarios(part)

    differing = {
        scenario.id: found
        for scenario in scenarios
        if (found := differences(scenario, compat, play(scenario, compat)))
    }

    assert len(scenarios) == count
    assert differing == {}
