"""Configurations that code makes or hands on: the same rules, and pickling."""

import pickle

import pytest

from streaming.config import (
    InputSettings,
    InvalidConfigError,
    JobConfig,
    UserSettings,
    VhostSettings,
    parse_config,
)
from topology.errors import DlxError, Problem


def test_the_error_survives_pickling():
    error = InvalidConfigError([Problem("job", "is wrong"), Problem("kafka", "too")])

    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert isinstance(error, DlxError)
    assert again.problems == error.problems
    assert str(again) == "job: is wrong\nkafka: too"


def test_a_configuration_survives_pickling():
    config = parse_config('kafka.security."sasl.password" = { env = "P" }')

    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 - our own bytes


def test_a_configuration_made_by_code_is_checked_too():
    with pytest.raises(InvalidConfigError) as caught:
        JobConfig(
            vhosts={},
            users={"": UserSettings()},
            inputs=(InputSettings(topic="dlx.publishes"),),
        )

    assert [problem.where for problem in caught.value.problems] == [
        "vhosts",
        'users.""',
        "inputs[0].user",
        "inputs",
    ]


def test_a_section_made_by_code_is_checked_too():
    with pytest.raises(InvalidConfigError) as caught:
        VhostSettings(lanes=0, consumer_timeout_ms=-1, definitions="")

    assert [str(problem) for problem in caught.value.problems] == [
        "lanes: must be from 1 to 1024",
        "definitions: is empty",
        "consumer_timeout_ms: must be from 0 to 315_360_000_000",
    ]
