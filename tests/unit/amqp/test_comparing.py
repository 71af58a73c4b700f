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


def test_what_is_delivered_to_a_channel_that_a_burst_closes_comes_before_or_behind_that():
    delivery = "Basic.Deliver(delivery_tag=1)"
    behind = [CLOSE, f"unexpected {delivery}", "unexpected content"]

    assert not differ("burst", [delivery, CLOSE], behind)
    assert differ("burst", [delivery], [])
    assert differ("burst", [CLOSE, "unexpected Basic.GetOk()"], [CLOSE])
