"""What can become due. Timers are values in a heap, fired when a record moves the clock past them.

A timer in the heap may be stale: whoever it is for knows the time that counts. Due timers fire in
order of deadline, then in the order below, then by number, wherever the log was cut.
"""

from __future__ import annotations

from enum import IntEnum


class TimerKind(IntEnum):
    """What a timer is for; the order in which timers of one instant fire."""

    WAKE_QUEUES = 0  # some queue of a group at rest has a timer then
    WAKE_CHANNELS = 1
    SWEEP_CLASSIC = 2  # expired messages; quorum queues take longer (R-QUEUE-5, R-TTL-12)
    SWEEP_QUORUM = 3
    RETRY_HELD = 4
    CONSUMER_TIMEOUT = 5
    LEASE = 6
    EXPIRE_QUEUE = 7


Timer = tuple[int, int, int]
"""Deadline in epoch milliseconds, TimerKind, number of the queue, channel or group."""


def wakings(queue_groups: dict[int, int], channel_groups: dict[int, int]) -> list[Timer]:
    """A timer for each group at rest that has any (`records.py`): group -> its earliest timer."""
    return [
        *((due_ms, TimerKind.WAKE_QUEUES, group) for group, due_ms in queue_groups.items()),
        *((due_ms, TimerKind.WAKE_CHANNELS, group) for group, due_ms in channel_groups.items()),
    ]
