"""Random steps on one broker that cause every kind of event."""

import random
from collections.abc import Callable
from typing import Any

from streaming.broker import commands
from streaming.broker.outbound import DeliveryOut
from tests.builders import Broker
from topology.declarations import Queue

QUEUES: dict[str, dict[str, Any]] = {
    "work": {"dead_letter_exchange": "dlx", "max_length": 5},
    "short": {"dead_letter_exchange": "dlx", "message_ttl": 40},
    "picky": {
        "dead_letter_exchange": "dlx",
        "max_length": 2,
        "overflow": "reject-publish-dlx",
    },
    "full": {"max_length": 2, "overflow": "reject-publish"},
    "dead": {"dead_letter_exchange": "", "dead_letter_routing_key": "work", "message_ttl": 90},
    "quorum": {
        "queue_type": "quorum",
        "dead_letter_exchange": "dlx",
        "delivery_limit": 2,
        "max_length": 4,
    },
    "safe": {
        "queue_type": "quorum",
        "dead_letter_exchange": "dlx",
        "dead_letter_strategy": "at-least-once",
        "overflow": "reject-publish",
        "message_ttl": 60,
    },
    "safe to full": {
        "queue_type": "quorum",
        "dead_letter_exchange": "",
        "dead_letter_routing_key": "full",
        "dead_letter_strategy": "at-least-once",
        "overflow": "reject-publish",
    },
    "other": {"alternate_exchange": "amq.fanout"},
    "urgent": {"max_priority": 3, "dead_letter_exchange": "dlx"},
    "brief": {"expires": 150},
}
CHANNELS = ("c0", "c1", "c2")


class RandomPlay:
    """A broker with one queue of each kind, and a random next step."""

    def __init__(self, seed: int, **config: Any) -> None:
        self.chance = random.Random(seed)
        self.broker = self.a_broker(dead_letter_retry_ms=70, **config)
        self.time_ms = 0
        self.labels = 0
        broker = self.broker
        broker.exchange("orders", "topic", arguments={"alternate-exchange": "or else"})
        broker.exchange("or else", "fanout")
        broker.exchange("dlx", "fanout")
        for name in QUEUES:
            self.declare(name)
        self._steps: list[tuple[Callable[[], object], int]] = [
            (self.publish, 50),
            (self.get, 15),
            (self.settle, 25),
            (self.wait, 15),
            (self.consume, 2),
            (self.close, 2),
            (self.purge, 1),
            (self.delete, 1),
            (self.policy, 1),
        ]

    def a_broker(self, **config: Any) -> Broker:
        """The broker to play on."""
        return Broker(**config)

    def declare(self, name: str) -> None:
        """Declare a queue and bind it."""
        broker = self.broker
        broker.queue(name, **QUEUES[name])
        broker.bind("orders", name, f"*.{name[0]}.#")
        broker.bind("or else", "other")
        if name in {"dead", "picky"}:
            broker.bind("dlx", name)
        if name == "full":
            broker.bind("amq.fanout", name)

    def steps(self, count: int) -> None:
        """Do a number of random steps."""
        actions = [action for action, _weight in self._steps]
        weights = [weight for _action, weight in self._steps]
        for action in self.chance.choices(actions, weights, k=count):
            action()

    def publish(self) -> None:
        """Publish to one queue, several, none, a missing exchange, or with a refused property."""
        chance = self.chance
        name = chance.choice([*QUEUES])
        exchange, key = chance.choice(
            [("", name), ("", name), ("orders", f"a.{name[0]}.b"), ("orders", "x"), ("", "nowhere")]
        )
        if chance.random() < 0.02:
            exchange = "missing"
        properties: dict[str, Any] = {"priority": chance.randrange(8)}
        if chance.random() < 0.2:
            properties["expiration"] = chance.choice(["0", "30", "50", "soon"])
        self.broker.publish(
            exchange,
            key,
            f"body {len(self.broker.bodies)}",
            headers=chance.choice([None, {"n": 1}]),
            mandatory=chance.random() < 0.3,
            immediate=chance.random() < 0.05,
            confirm=chance.random() < 0.5,
            **properties,
        )

    def get(self) -> None:
        """Get a few messages, some with automatic ack."""
        self.labels += 1
        self.broker.get(
            self.chance.choice([*QUEUES]),
            f"g{self.labels}",
            self.chance.randrange(1, 4),
            auto_ack=self.chance.random() < 0.3,
            channel=self.chance.choice(CHANNELS),
        )

    def consume(self) -> None:
        """Start a consumer."""
        self.labels += 1
        self.broker.consume(
            self.chance.choice([*QUEUES]),
            f"s{self.labels}",
            prefetch=self.chance.randrange(3),
            auto_ack=self.chance.random() < 0.3,
            channel=self.chance.choice(CHANNELS),
        )

    def settle(self) -> None:
        """Settle a delivery in a random way; often it is already settled."""
        chance = self.chance
        said = [*self.broker.outbound[-60:], *self.broker.shard.outbound]
        given = [out for out in said if isinstance(out, DeliveryOut) and out.delivery_id]
        refs = tuple(
            out.ref for out in chance.sample(given, min(len(given), chance.randrange(1, 4)))
        )
        channel = chance.choice([*CHANNELS, None, None, None])
        reason = (None, "no stock", "card 42 declined")[self.labels % 3]
        command = chance.choice(
            [
                commands.Ack(refs=refs, channel=channel, multiple=chance.random() < 0.3),
                commands.Reject(refs=refs, channel=channel, reason=reason),
                commands.Reject(refs=refs, channel=channel, requeue=True, reason=reason),
                commands.Nack(
                    refs=refs,
                    channel=channel,
                    requeue=chance.random() < 0.6,
                    multiple=chance.random() < 0.4,
                    reason=reason,
                ),
            ]
        )
        self.broker.do(command)

    def wait(self) -> None:
        """Let time pass."""
        self.time_ms += self.chance.choice([1, 10, 40, 100])
        self.broker.at(self.time_ms)

    def close(self) -> None:
        """Close a channel, or requeue all its deliveries."""
        channel = self.chance.choice(CHANNELS)
        if self.chance.random() < 0.5:
            self.broker.close_channel(channel)
        else:
            self.broker.do(commands.Recover(channel=channel))

    def purge(self) -> None:
        """Empty a queue."""
        self.broker.do(commands.Purge(queue=self.chance.choice([*QUEUES])))

    def delete(self) -> None:
        """Delete a queue, and declare it or another one."""
        self.broker.do(commands.DeleteQueue(queue=self.chance.choice([*QUEUES])))
        self.declare(self.chance.choice([*QUEUES]))
        self.broker.do(commands.DeclareQueue(queue=Queue("")))

    def policy(self) -> None:
        """Shorten queues."""
        self.broker.policy("short", "work|urgent", {"max-length": self.chance.randrange(1, 4)})
