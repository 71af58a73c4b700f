"""A file in shared storage, opened for reading at any place."""

import io
from collections import OrderedDict
from copy import copy
from typing import Any, Final, Protocol

TAIL_BYTES: Final = 64 * 1024
"""What opening a file reads at once: a small file whole, or the footer of a Parquet file."""

BLOCK_BYTES: Final = 1024 * 1024
BLOCKS: Final = 8


class Source(Protocol):
    """One file, as a reader needs it."""

    def tail(self) -> tuple[int, bytes]:
        """The size of the file, and its last `TAIL_BYTES`."""

    def part(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`."""


class RemoteFile(io.RawIOBase):
    """A remote file. Opening it takes one request, with which small files are read.

    Later reads take a request for each new block of 1 MiB, or for a longer range.
    """

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self.size, self._tail = source.tail()
        self._tail_at = self.size - len(self._tail)
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._at = 0

    def again(self) -> "RemoteFile":
        """The same file, opened once more without a request."""
        other = copy(self)
        other.begin()
        return other

    def begin(self) -> None:
        """Read from the beginning, with no blocks in memory."""
        self._at, self._blocks = 0, OrderedDict()

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be read at any place."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set where the next read begins."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read bytes, up to the end at most."""
        left = max(0, self.size - self._at)
        count = left if size is None or size < 0 else min(size, left)
        content = self._range(self._at, self._at + count)
        self._at += count
        return content

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; return how many bytes."""
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def _range(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        if start >= self._tail_at:
            return self._tail[start - self._tail_at : end - self._tail_at]
        if end - start >= BLOCK_BYTES:
            return self._source.part(start, end)
        first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        content = b"".join(self._block(number) for number in range(first, last + 1))
        return content[start - first * BLOCK_BYTES : end - first * BLOCK_BYTES]

    def _block(self, number: int) -> bytes:
        block = self._blocks.get(number)
        if block is None:
            start = number * BLOCK_BYTES
            block = self._source.part(start, min(start + BLOCK_BYTES, self.size))
            self._blocks[number] = block
            if len(self._blocks) > BLOCKS:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return block
