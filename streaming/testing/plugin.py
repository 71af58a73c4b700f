"""The pytest plugin: the fixture `dlx_broker`, a RabbitMQ in memory whose clock the test holds.

It is registered when dlx-stream is installed, and starts nothing until a test asks for it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streaming.testing.broker import TestBroker


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings of the plugin."""
    parser.addini("dlx_port", "Port of dlx_broker; 0 for a free one.", default="0")
    parser.addini("dlx_compat", "RabbitMQ's version that dlx_broker behaves like.", default="4.0")
    parser.addini("dlx_patience", "Seconds that any consumer may take to settle.", default="")
    parser.addini("dlx_definitions", "Definitions that each test begins with.", default="")


@pytest.fixture(scope="session")
def _dlx_session_broker(request: pytest.FixtureRequest) -> Iterator["TestBroker"]:
    """One broker for all tests; each finds it empty."""
    from streaming.testing.broker import TestBroker  # noqa: PLC0415 - pytest loads the plugin always

    config = request.config
    compat = config.getini("dlx_compat")
    if compat not in {"4.0", "3.10"}:
        raise pytest.UsageError(f"dlx_compat is 4.0 or 3.10, not {compat}")
    broker = TestBroker(
        port=int(_number(config, "dlx_port") or 0),
        compat=compat,
        patience_s=_number(config, "dlx_patience"),
    ).start()
    yield broker
    broker.stop()


@pytest.fixture
def dlx_broker(
    _dlx_session_broker: "TestBroker", request: pytest.FixtureRequest
) -> Iterator["TestBroker"]:
    """A RabbitMQ in memory, empty, whose clock stands still until the test moves it."""
    broker = _dlx_session_broker
    definitions = request.config.getini("dlx_definitions")
    if definitions:
        broker.load(request.config.rootpath / definitions)
    yield broker
    broker.reset()


def _number(config: pytest.Config, name: str) -> float | None:
    """A setting that is a number from 0, or not set."""
    text = config.getini(name)
    try:
        number = float(text) if text else None
    except ValueError:
        number = -1
    if number is not None and not number >= 0:  # nor is NaN
        raise pytest.UsageError(f"{name} is a number from 0, not {text}")
    return number
