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
    EXPIRE_MESSAGES = 2
    RETRY_HELD = 3
    CONSUMER_TIMEOUT = 4
    LEASE = 5
    EXPIRE_QUEUE = 6


Timer = tuple[int, int, int]
"""Deadline in epoch milliseconds, TimerKind, number of the queue, channel or group."""
