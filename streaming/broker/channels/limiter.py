"""The limit on a whole channel's unacked deliveries, which `basic.qos` with `global` sets (R-QOS).

RabbitMQ counts in a process beside the channel, and so it has its ways, which are kept here: the
count begins with everything unacked on the channel; from then on only deliveries to consumers of
classic queues add to it, and only settlements of consumers' deliveries, of any queue, lower it.
"""

from __future__ import annotations


class Limiter:
    """The limit of one channel.

    Attributes:
        limit: how many deliveries may be unacked; at least 1.
        volume: how many are, as RabbitMQ counts.
        settled: deliveries that were settled and are not subtracted from `volume` yet.
    """

    __slots__ = ("limit", "settled", "volume")

    def __init__(self, limit: int, volume: int) -> None:
        self.limit = limit
        self.volume = volume
        self.settled = 0

    @property
    def has_room(self) -> bool:
        """Whether one more delivery is allowed."""
        return self.volume < self.limit

    def count_settled(self) -> bool:
        """Subtract what was settled together; return whether this gave the channel room."""
        had_room = self.has_room
        if self.volume:
            self.volume -= self.settled
        self.settled = 0
        return not had_room and self.has_room
