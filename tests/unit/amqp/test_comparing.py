"""What two brokers may answer differently to a session, and what they may not."""

from tests.sessions.comparing import difference
from tests.sessions.steps import Step

DELETED, CANCEL, CLOSE = "Queue.DeleteOk()", "Basic.Cancel()", "Channel.Close()"


def differ(op: str, one: list[str], two: list[str]) -> bool:
    return difference([Step(0, 1, op, {})], [{"0/1": one}], [{"0/1": two}]) is not None


def test_when_a_consumer_ends_among_the_answers_to_a_burst_is_chance():
    """RabbitMQ says it behind what the client has sent meanwhile, or not at all."""
    cancelled = [DELETED, CANCEL, CLOSE]

    assert not differ("burst", cancelled, [DELETED, CLOSE])
    assert differ("burst", cancelled, [CLOSE])
    assert differ("delete_queue", [DELETED, CANCEL], [DELETED])
