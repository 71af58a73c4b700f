"""How many rows a task holds in memory at once: bounds, and cutting rows into chunks."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

MAX_BODY_BYTES = 64 * 1024 * 1024
"""The most bytes of bodies in memory at once."""

MAX_TEXT_BYTES = 256 * 1024 * 1024
"""The most bytes of other values in memory at once; a column of a file holds less than 2 GiB."""

MAX_HEADER_BYTES = 1024 * 1024 * 1024
"""The most bytes that the headers of records in memory may have at once, at worst."""


def chunks(*weights: tuple[Sequence[int] | Any, int]) -> Iterator[tuple[int, int]]:
    """Cut rows into chunks (start, end); each is within every bound, or is a single row.

    Args:
        weights: for each bound, the weight of every row, and the most that a chunk may weigh.
    """
    sums = [(np.cumsum(np.array(sizes, np.int64)), most) for sizes, most in weights]
    rows, start = len(sums[0][0]), 0
    while start < rows:
        ends = [
            np.searchsorted(ends, (ends[start - 1] if start else 0) + most, side="right")
            for ends, most in sums
        ]
        end = max(start + 1, int(min(ends)))
        yield start, end
        start = end
