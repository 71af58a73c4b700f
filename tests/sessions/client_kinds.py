"""Sessions about clients: consumers, what connections own, how they end, and odd frames."""

import random
from typing import Any

from tests.sessions.maker import Maker, TypedQueuesMaker
from tests.sessions.steps import CHANNELS, EXCHANGES, KEYS, QUEUES, Step

FRAME_SIZES = (0, 1, 7, 4087, 4088)
"""Bytes of a body in one frame; 4088 are the most that fit."""

BODY_SIZES = (0, 1, 5, 4087, 4088, 4089, 8176, 8177, 70_000)


class ConsumersMaker(TypedQueuesMaker):
    """Many consumers of two queues: priorities, a single active one, limits, exclusive ones."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._two = chance.sample(QUEUES, 2)
        self._fed = {each: chance.choice(self._two) for each in self._fed}
        self._has_single_quorum = False
        self._weights |= {
            self.declare_queue: 3,
            self.consume: 40,
            self.cancel: 12,
            self.qos: 16,
            self.settle: 40,
            self.publish: 50,
            self.recover: 5,
            self.close_channel: 5,
            self.close_connection: 3,
            self.bind: 1,
            self.declare_exchange: 1,
            self.transaction: 1,
        }

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        is_single = self._seldom(0.45)
        if is_single:
            arguments["x-single-active-consumer"] = True
        if self._seldom(0.3):
            arguments["x-queue-type"] = "quorum"
            self._has_single_quorum |= is_single
        elif self._seldom(0.4):
            arguments["x-max-priority"] = self._pick((1, 5))
        if self._seldom(0.1):
            arguments["x-max-length"] = self._pick((0, 1, 3))
        if self._seldom(0.1):
            arguments["x-message-ttl"] = self._pick((0, 100_000))
        return arguments

    def consume(self) -> Step:
        """A consumer, often with a priority, seldom with an argument that means nothing."""
        step = super().consume()
        step.arguments["consumer_tag"] = self._pick(("", "t0", "t1", "t2", "t3", "t4"))
        arguments = {}
        if self._seldom(0.5) and not self._has_single_quorum:  # the end of R-CONS-6
            arguments["x-priority"] = self._pick((-10, -1, 0, 1, 5))
        if self._seldom(0.05):
            arguments["x-cancel-on-ha-failover"] = self._pick((True, False, "x"))
        if self._seldom(0.02):
            arguments["x-stream-offset"] = self._pick(("first", 5))
        step.arguments["arguments"] = arguments
        return step

    def publish(self) -> Step:
        """A message, most to the queues that have consumers."""
        step = super().publish()
        if self._seldom(0.9):
            step.arguments.update(exchange="", routing_key=self._pick(self._two))
        return step


class OwnersMaker(Maker):
    """Two connections and the queues that belong to one of them; what ends with an owner."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {
            self.declare_queue: 30,
            self.consume: 16,
            self.delete_queue: 10,
            self.bind: 10,
            self.unbind: 5,
            self.purge: 6,
            self.get: 12,
            self.delete_exchange: 6,
            self.declare_exchange: 10,
            self.close_channel: 5,
            self.close_connection: 8,
            self.error: 3,
        }

    def declare_queue(self, name: str | None = None) -> Step:
        """A queue, often exclusive or deleted with its last consumer, seldom as it is already."""
        step = super().declare_queue(name)
        step.arguments.update(
            exclusive=self._seldom(0.4),
            auto_delete=self._seldom(0.4),
            durable=self._seldom(0.2),
        )
        return step

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self._seldom(0.3):
            arguments["x-dead-letter-exchange"] = self._pick(("", *EXCHANGES))
        if self._seldom(0.1):
            arguments["x-queue-type"] = self._pick(("classic", "quorum"))
        if self._seldom(0.1):
            arguments["x-expires"] = 100_000
        return arguments

    def consume(self) -> Step:
        """A consumer of any queue that its channel may know, often an exclusive one."""
        step = super().consume()
        step.arguments["exclusive"] = self._seldom(0.4)
        return step

    def delete_queue(self) -> Step:
        """Delete a queue, mostly on conditions."""
        step = super().delete_queue()
        step.arguments.update(if_unused=self._seldom(0.5), if_empty=self._seldom(0.5))
        return step


class ReturnsMaker(TypedQueuesMaker):
    """Quorum queues take messages back from clients that requeue, recover or disappear.

    A connection has one channel, and a channel one consumer and no gets to be settled: RabbitMQ
    ends the channels of a connection in any order, and takes back consumer by consumer.
    """

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {
            self.declare_queue: 3,
            self.consume: 24,
            self.cancel: 0,
            self.settle: 40,
            self.recover: 8,
            self.close_channel: 8,
            self.close_connection: 8,
            self.transaction: 0,
            self.publish: 40,
        }

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self._seldom(0.8):
            arguments["x-queue-type"] = "quorum"
            if self._seldom(0.8):
                arguments["x-delivery-limit"] = self._pick((-1, 0, 1, 1, 2, 3))
        if self._seldom(0.8):
            arguments["x-dead-letter-exchange"] = self._pick(("", "", *EXCHANGES, "amq.fanout"))
            arguments["x-dead-letter-routing-key"] = self._pick(QUEUES)
        if self._seldom(0.2):
            arguments["x-max-length"] = self._pick((1, 2))
        if self._seldom(0.3) and "x-queue-type" in arguments:
            arguments["x-dead-letter-strategy"] = "at-least-once"
            arguments["x-overflow"] = "reject-publish"
        return arguments

    def consume(self) -> Step:
        """The only consumer of its channel."""
        step = super().consume()
        step.arguments["arguments"] = {}
        step.arguments["consumer_tag"] = "t0"
        step.arguments["only"] = True
        return step

    def get(self) -> Step:
        """One message on request, acked at once."""
        step = super().get()
        step.arguments["no_ack"] = True
        return step

    def qos(self) -> Step:
        """A limit for the consumer."""
        step = super().qos()
        step.arguments.update(global_=False, prefetch_size=0)
        return step

    def publish(self) -> Step:
        """A message, most to the queues that have consumers."""
        step = super().publish()
        if self._seldom(0.7):
            step.arguments.update(exchange="", routing_key=self._pick(sorted(self._fed.values())))
        return step

    def settle(self) -> Step:
        """A settlement, most of which return messages."""
        step = super().settle()
        if self._seldom(0.5):
            step.arguments.update(kind=self._pick(("nack", "reject")), requeue=True)
            step.arguments["multiple"] &= step.arguments["kind"] != "reject"
        return step

    def _step(self, op: str, **arguments: Any) -> Step:
        step = super()._step(op, **arguments)
        return Step(step.connection, CHANNELS[0], op, arguments)


class FramesMaker(Maker):
    """Contents in frames of any size, between those of another channel, or where none belongs."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {self.publish: 16, self.pieces: 30, self.both: 16, self.wrong_frame: 4}

    def publish(self) -> Step:
        """A message of a size near that of a frame."""
        step = super().publish()
        size = self._pick(BODY_SIZES)
        step.arguments["body"] = f"{self._number:05}".ljust(size, ".")[:size]
        return step

    def pieces(self) -> Step:
        """A message in frames that its client chooses, empty ones and heartbeats between them."""
        sizes = [self._pick(FRAME_SIZES) for _ in range(self._chance.randrange(5))]
        while sizes and not sizes[-1]:  # what is behind the last byte is a wrong frame
            sizes.pop()
        return self._step(
            "pieces",
            routing_key=self._pick((*QUEUES, "missing")),
            mandatory=self._seldom(0.3),
            sizes=sizes,
            heartbeats=self._seldom(0.3),
        )

    def both(self) -> Step:
        """Messages of both channels of a connection, frame by frame in turn.

        They go to different queues: which of two channels RabbitMQ serves first is chance.
        """
        keys = self._chance.sample((*QUEUES, *KEYS), len(CHANNELS))
        sizes = [self._pick((1, 4088, 4089, 9000)) for _ in CHANNELS]
        return self._step("both", routing_keys=keys, sizes=sizes)

    def wrong_frame(self) -> Step:
        """A frame where none belongs: the connection ends."""
        kinds = ("header first", "body first", "method inside", "other class", "two headers")
        return self._step("wrong_frame", kind=self._pick((*kinds, "too long", "channel 0")))
