"""Every recorded scenario plays through AMQP as RabbitMQ played it, on both versions.

It does so however late a broker answers.
"""

import pytest

from streaming.amqp.clocks import ManualClock
from streaming.amqp.memory import MemoryBroker
from streaming.scenario import replies
from streaming.scenario.document import VERSIONS
from tests.amqp_scenarios import play
from tests.delayed_broker import DelayedBroker
from tests.recordings import PARTS, differences, recorded_scenarios


def at_once(compat, _number):
    return MemoryBroker(ManualClock(replies.START_MS), compat)


def later(compat, number):
    seed = number if number % 3 else None
    return DelayedBroker(ManualClock(replies.START_MS), compat, seed)


@pytest.mark.parametrize("broker", [at_once, later])
@pytest.mark.parametrize("compat", VERSIONS)
@pytest.mark.parametrize(("part", "count"), PARTS.items())
def test_a_recorded_scenario_plays_through_amqp_as_rabbitmq_played_it(part, count, compat, broker):
    scenarios = recorded_scenarios(part)

    differing = {
        scenario.id: found
        for number, scenario in enumerate(scenarios)
        if (found := differences(scenario, compat, play(scenario, broker(compat, number))))
    }

    assert len(scenarios) == count
    assert differing == {}
