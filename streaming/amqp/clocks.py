"""The time of a server: that of the machine, or one that a test moves by hand."""

import asyncio
import math
import re
import time
from typing import Final, Protocol, TypeGuard

START_MS: Final = 1_750_000_000_000
"""Where a clock that is moved by hand begins, epoch milliseconds."""

END_MS: Final = 253_402_300_799_999
"""The end of the year 9999: no clock goes beyond it."""

_UNITS_MS: Final = {
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "second": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}
_DURATION: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*")


class Clock(Protocol):
    """The time of a server, epoch milliseconds."""

    def now_ms(self) -> int:
        """The time now; it may not go back."""


class WallClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved.

    Attributes:
        moving: is held by who lets time pass, so that the next one waits.
    """

    def __init__(self, now_ms: int = START_MS) -> None:
        self.moving = asyncio.Lock()
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """See `Clock`."""
        return self._now_ms

    def move_to(self, now_ms: int) -> None:
        """Move to an instant; it may not be earlier than now."""
        assert now_ms >= self._now_ms, "a clock does not go back"
        self._now_ms = now_ms


def milliseconds(duration: object) -> int:
    """A duration in milliseconds: a number of seconds, or text such as `30 minutes` or `1.5h`.

    Raises:
        ValueError: it cannot be read, or is negative; the message says what is accepted.
    """
    if _is_number(duration):
        if duration < 0:
            raise ValueError(f"a clock does not go back: {duration}")
        return _in_range(duration * 1000)
    found = _DURATION.fullmatch(duration.lower()) if isinstance(duration, str) else None
    unit = None
    if found is not None:
        unit = _UNITS_MS.get(found[2]) or _UNITS_MS.get(found[2].removesuffix("s"))
    if found is None or unit is None:
        raise ValueError(
            f"{duration!r} is not a duration: write a number of seconds, or text such as "
            "'30 minutes', '1.5h' or '250 ms'"
        )
    return _in_range(float(found[1]) * unit)


def seconds_of_patience(value: object) -> float | None:
    """How long a consumer may be silent, in seconds; None leaves it open.

    Raises:
        ValueError: it is neither None nor a number from 0.
    """
    if value is None or (_is_number(value) and value >= 0):
        return value
    raise ValueError(f"patience: {value!r} is not a number of seconds from 0")


def _is_number(value: object) -> TypeGuard[float]:
    """Whether a value counts as a number of seconds: not a truth value, and not NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not math.isnan(value)


def _in_range(number: float) -> int:
    if number > END_MS:
        raise ValueError("the clock ends with the year 9999")
    return round(number)
