"""Whom a channel's limit held back is served as if all consumers of the channel were looked at."""

import random

import pytest

from streaming.broker import commands
from streaming.broker.channels.channel import Consumer
from streaming.broker.handlers import settlement
from streaming.broker.queues.consumer_line import ConsumerLine
from tests.builders import Broker

QUEUES = ("a", "b", "c", "single", "quorum")


def play(seed: int, *, cut: bool) -> list[str]:
    """Random consumers, limits, settlements and stops on one channel; what happened."""
    chance = random.Random(seed)
    broker = Broker(cut=cut)
    for name in QUEUES[:3]:
        broker.queue(name)
    broker.queue("single", single_active_consumer=True)
    broker.quorum("quorum")
    tags = labels = 0
    for _ in range(200):
        match chance.choices(range(8), (4, 12, 16, 2, 1, 2, 1, 1))[0]:
            case 0 if labels < 25:
                labels += 1
                broker.do(commands.Qos(prefetch=chance.choice((0, 1, 1, 2)), channel="c0"))
                limit = chance.choice((1, 2, 4))
                broker.do(commands.Qos(prefetch=limit, is_global=True, channel="c0"))
                broker.consume(
                    chance.choice(QUEUES[:4]),
                    f"c{labels}",
                    auto_ack=chance.random() < 0.1,
                    arguments={"x-priority": chance.choice((0, 0, 0, 1, -1))},
                )
            case 1:
                for _ in range(chance.choice((1, 1, 4))):
                    broker.publish("", chance.choice(QUEUES), "m")
            case 2 | 0:
                tags = len(broker.deliveries())
                broker.do(
                    commands.Settle(
                        tag=chance.randint(max(1, tags - 6), tags + 1),
                        multiple=chance.random() < 0.2,
                        outcome=chance.choice(("ack", "ack", "ack", "requeue", "reject")),
                        channel="c0",
                    )
                )
            case 3:
                limit = chance.choice((0, 1, 2, 5))
                broker.do(commands.Qos(prefetch=limit, is_global=True, channel="c0"))
            case 4:
                broker.do(commands.Flow(active=False, channel="c0"))
            case 5:
                broker.do(commands.Flow(active=True, channel="c0"))
            case 6:
                broker.do(commands.Cancel(label=f"c{chance.randint(1, labels + 1)}"))
            case _:
                broker.do(commands.Recover(channel="c0"))
    return [*broker.deliveries(), *broker.story()]


@pytest.mark.parametrize("seed", range(100))
def test_consumers_are_served_as_if_all_were_looked_at(seed, monkeypatch):
    cut = seed % 3 == 0
    found = play(seed, cut=cut)

    monkeypatch.setattr(settlement, "serve_held_back", settlement.serve_resumed)
    expected = play(seed, cut=False)

    assert len(found) > 100
    assert found == expected


@pytest.mark.parametrize("settle", ["ack", "requeue", "reject"])
def test_a_settlement_looks_at_the_consumers_that_it_concerns(settle, monkeypatch):
    looks = [0]
    has_own_room, rejoin = vars(Consumer)["has_own_room"].fget, ConsumerLine.rejoin

    def look(consumer):
        looks[0] += 1
        return has_own_room(consumer)

    def join(line, consumer):
        looks[0] += 1
        rejoin(line, consumer)

    broker = Broker()
    broker.do(commands.Qos(prefetch=1, is_global=True, channel="c0"))
    for number in range(400):
        broker.queue(f"q{number}")
        broker.consume(f"q{number}", f"c{number}")
        for _ in range(3):
            broker.publish("", f"q{number}", "m")
    broker.do(commands.Settle(tag=1, outcome="ack", channel="c0"))
    monkeypatch.setattr(Consumer, "has_own_room", property(look))
    monkeypatch.setattr(ConsumerLine, "rejoin", join)

    counts = []
    for tag in range(2, 302):
        before = looks[0]
        broker.do(commands.Settle(tag=tag, outcome=settle, channel="c0"))
        counts.append(looks[0] - before)

    assert len(broker.deliveries()) >= 300
    assert max(counts) < 60
