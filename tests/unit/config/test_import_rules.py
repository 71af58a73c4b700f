"""Definitions that a job would refuse to import are refused with the configuration."""

import pytest

from streaming.config import JobConfig
from streaming.config.import_rules import import_problems
from streaming.config.inputs import InputSettings
from streaming.config.vhosts import UserSettings, VhostSettings
from topology.declarations import Definitions, Policy, Queue

LIMITED = Queue("q", arguments={"x-max-length": 1})


def problems(definitions: Definitions, lanes: int = 2, *, administrator: bool = True) -> list[str]:
    config = JobConfig(
        vhosts={"/": VhostSettings(lanes=lanes)},
        users={"ops": UserSettings(administrator=administrator)},
        inputs=(
            InputSettings(topic="p", source="publishes", user="ops"),
            InputSettings(topic="c", source="commands", user="ops"),
        ),
    )
    return list(import_problems(config, "/", definitions))


def test_who_imports_must_be_an_administrator():
    [problem] = problems(Definitions(), administrator=False)

    assert problem.startswith("are imported by 'ops', the user of the first commands input")


@pytest.mark.parametrize(
    ("definitions", "what"),
    [
        (Definitions(queues=(Queue("q", auto_delete=True),)), "queue 'q': "),
        (Definitions(queues=(LIMITED,)), "queue 'q': "),
        (Definitions(policies=(Policy("p", ".*", {"expires": 5}),)), "policy 'p': "),
        (Definitions(operator_policies=(Policy("o", ".*", {"max-length": 1}),)), "policy 'o': "),
    ],
)
def test_what_several_lanes_do_not_offer_is_named(definitions, what):
    [problem] = problems(definitions)

    assert problem.startswith(f"{what}NOT_IMPLEMENTED - ")
    assert problems(definitions, lanes=1) == []
