"""What a process and its child say to each other: a length, then so many bytes."""

from typing import IO, Final

END: Final = b""
"""Follows the last part of an answer."""

LENGTH: Final = 4
"""How many bytes the length has."""


def framed(content: bytes) -> bytes:
    """One frame."""
    return len(content).to_bytes(LENGTH, "big") + content


def send(stream: IO[bytes], content: bytes) -> None:
    """Write one frame."""
    stream.write(framed(content))
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one frame; None: the other side has ended."""
    head = stream.read(LENGTH)
    if len(head) < LENGTH:
        return None
    size = int.from_bytes(head, "big")
    content = stream.read(size)
    return content if len(content) == size else None
