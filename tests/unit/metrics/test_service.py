"""What the metrics of a job ask its tables."""

import pytest

from streaming.metrics.figures import Unhandled
from streaming.metrics.service import unhandled_letters
from tests.builders import START_MS
from tests.unit.queries.redrives.letters import Shop


@pytest.fixture
def shop(tmp_path):
    """A queue with two letters; those of another are back where they first died."""
    shop = Shop(tmp_path / "tables", letters=2)
    broker = shop.broker
    broker.queue("tried", dead_letter_exchange="", dead_letter_routing_key="retry")
    broker.queue("retry", dead_letter_exchange="", dead_letter_routing_key="tried", message_ttl=100)
    broker.publish("", "tried", "order")
    shop.kill("tried", 1)
    broker.at(1_000)
    return shop


def test_letters_wait_until_they_are_redriven(shop):
    before = shop.ask(unhandled_letters)
    shop.approve(shop.plan())

    assert before == {("/", "dead"): Unhandled(2, START_MS / 1000)}
    assert shop.ask(unhandled_letters) == {}
