"""What the console and its child processes say to each other: a length, then so many bytes."""

from typing import IO, Final

END: Final = b""
"""Follows the last part of an answer."""

_LENGTH: Final = 4


def send(stream: IO[bytes], content: bytes) -> None:
    """Write one frame."""
    stream.write(len(content).to_bytes(_LENGTH, "big") + content)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one frame; None: the other side has ended."""
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    size = int.from_bytes(head, "big")
    content = stream.read(size)
    return content if len(content) == size else None
