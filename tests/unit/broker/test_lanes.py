"""What a vhost with several lanes divides and refuses (D2)."""

import pytest

from streaming.broker import commands
from streaming.broker.outbound import AnswerOut
from tests.builders import Broker, a_queue
from topology.declarations import Queue
from topology.refusals import Refusal


def refused(what: str) -> Refusal:
    text = f"NOT_IMPLEMENTED - {what} cannot be used in vhost '/', which has 4 lanes"
    return Refusal(540, text)


@pytest.mark.parametrize(
    ("declaration", "what"),
    [
        (a_queue("q", expires=1_000), "queue expiry"),
        (Queue("q", auto_delete=True), "auto-delete queues"),
        (Queue("q", exclusive=True), "exclusive queues"),
        (a_queue("q", max_length=3), "a max-length of 3, smaller than the number of lanes,"),
        (
            a_queue("q", max_length_bytes=0),
            "a max-length-bytes of 0, smaller than the number of lanes,",
        ),
        (Queue(""), "server-named queues"),
    ],
)
def test_a_queue_that_needs_one_lane_is_refused(declaration, what):
    broker = Broker(lanes=4)

    assert broker.refusal(commands.DeclareQueue(queue=declaration)) == refused(what)
    assert broker.shard.vhost.queues == {}


@pytest.mark.parametrize("operator", [False, True])
@pytest.mark.parametrize(
    ("definition", "what"),
    [
        ({"expires": 1_000}, "queue expiry"),
        ({"max-length": 3}, "a max-length of 3, smaller than the number of lanes,"),
        ({"max-length-bytes": 0}, "a max-length-bytes of 0, smaller than the number of lanes,"),
    ],
)
def test_a_policy_that_needs_one_lane_is_refused_whatever_it_matches(definition, what, operator):
    broker = Broker(lanes=4)

    assert broker.policy("p", "nothing", definition, operator=operator) == refused(what)
    assert broker.shard.vhost.policies.policies(operator=operator) == []


@pytest.mark.parametrize(
    "command", [commands.Get(queue="q"), commands.Consume(queue="q", label="c")]
)
def test_commands_that_read_a_queue_are_refused_with_several_lanes(command):
    broker = Broker(lanes=4)
    broker.queue("q")

    text = "NOT_IMPLEMENTED - vhost '/' has 4 lanes: no get or consume there"
    assert broker.refusal(command) == Refusal(540, text)


def test_limits_are_divided_among_the_lanes():
    kept = []
    for lane in range(4):
        broker = Broker(lanes=4, lane=lane)
        broker.do(commands.DeclareQueue(queue=a_queue("q", max_length=6, max_length_bytes=100)))
        for number in range(10):
            broker.publish("", "q", f"m{number}", size=1)
        settings = broker.shard.state.queues.named("q").settings
        kept.append((broker.depth("q"), settings.max_length, settings.max_length_bytes))

    assert kept == [(2, 2, 25), (2, 2, 25), (1, 1, 25), (1, 1, 25)]


def test_limits_of_a_policy_are_divided_among_the_lanes():
    broker = Broker(lanes=4)
    broker.queue("q")

    assert broker.policy("p", "q", {"max-length": 4, "message-ttl": 5}) is None
    assert broker.shard.state.queues.named("q").settings.max_length == 1


def test_only_lane_0_answers_a_broadcast_command():
    command = commands.DeclareQueue(queue=Queue("q"))

    answers = [Broker(lanes=2, lane=lane).do(command) for lane in range(2)]

    assert [len(out) for out in answers] == [1, 0]
    assert isinstance(answers[0][0], AnswerOut)
