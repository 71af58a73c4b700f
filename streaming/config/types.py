"""The kinds of simple values: flags, numbers, words, names, paths."""

import math
import re
from collections.abc import Callable
from typing import Final, Literal
from urllib.parse import unquote

import msgspec

from streaming.config.errors import Place
from streaming.config.toml import kind_of, write_scalar, write_string, write_whole
from topology.suggestions import did_you_mean

HOUR_MS: Final = 3_600_000
TEN_YEARS_MS: Final = 315_360_000_000
"""RabbitMQ's own limit of a time to live, and ours of any duration."""

MAX_NAME_BYTES: Final = 255
"""Names and keys are AMQP short strings."""

_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<rest>.*)"
)

STORAGE_SCHEMES: Final = ("file", "s3", "s3a", "gs", "abfs", "abfss")
"""Of shared storage that both deltalake and pyarrow reach, as they spell them."""

_SCHEME: Final = re.compile(r"file:|[A-Za-z][A-Za-z0-9+.-]+:/", re.IGNORECASE)
_FILE_URL: Final = re.compile(r"file:(?://(?:localhost)?)?(?P<path>/[^/?#][^?#]*)", re.IGNORECASE)


class Scalar(msgspec.Struct, frozen=True):
    """A kind whose values are the same in the file and in the section.

    Attributes:
        fault: what is wrong with a value, in words; None if nothing is.
        names: `local` for a path on this machine, `storage` for a path or a URL, else `nothing`.
    """

    fault: Callable[[object], str | None]
    names: Literal["nothing", "local", "storage"] = "nothing"

    def read(self, raw: object, place: Place) -> object | None:
        """The value, or None if it was reported."""
        fault = self.fault(raw)
        if fault is None:
            return raw
        place.report(fault)
        return None

    def check(self, value: object, place: Place) -> None:
        """Report what is wrong with a value."""
        self.read(value, place)

    def plain(self, value: str) -> str:
        """A text as the section has it: of a path on this machine without `file://`."""
        return local_path(value) if self.names == "local" else value

    def write(self, value: object) -> str:
        """The value as TOML."""
        return write_scalar(value)


def flag() -> Scalar:
    """True or false."""

    def fault(raw: object) -> str | None:
        return None if isinstance(raw, bool) else f"expected true or false, got {kind_of(raw)}"

    return Scalar(fault)


def whole(least: int, most: int, unit: str = "") -> Scalar:
    """An integer within bounds, both included; `unit` is for messages, such as `bytes`."""

    def fault(raw: object) -> str | None:
        if isinstance(raw, bool) or not isinstance(raw, int):
            of_unit = f" of {unit}" if unit else ""
            return f"expected a whole number{of_unit}, got {kind_of(raw)}"
        if not least <= raw <= most:
            return f"must be from {write_whole(least)} to {write_whole(most)}"
        return None

    return Scalar(fault)


def milliseconds(least: int = 0, most: int = TEN_YEARS_MS) -> Scalar:
    """A duration."""
    return whole(least, most, "milliseconds")


def size(least: int, most: int) -> Scalar:
    """A number of bytes."""
    return whole(least, most, "bytes")


def fraction() -> Scalar:
    """A number between 0 and 1, neither included."""

    def fault(raw: object) -> str | None:
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            return f"expected a number, got {kind_of(raw)}"
        return None if math.isfinite(raw) and 0 < raw < 1 else "must be above 0 and below 1"

    return Scalar(fault)


def choice(*words: str) -> Scalar:
    """One of a few words."""
    listed = " or ".join(write_string(word) for word in words)

    def fault(raw: object) -> str | None:
        if not isinstance(raw, str):
            return f"expected {listed}, in quotes, got {kind_of(raw)}"
        if raw not in words:
            return f"must be {listed}, not {write_string(raw)}{did_you_mean(raw, words)}"
        return None

    return Scalar(fault)


def text(
    text_fault: Callable[[str], str | None],
    names: Literal["nothing", "local", "storage"] = "nothing",
) -> Scalar:
    """A string; `text_fault` says what is wrong with it, or None."""

    def fault(raw: object) -> str | None:
        if not isinstance(raw, str):
            return f"expected a string, got {kind_of(raw)}"
        return text_fault(raw)

    return Scalar(fault, names)


def matching(pattern: str, words: str) -> Scalar:
    """A string that a pattern matches as a whole; `words` completes the sentence `must be ...`."""
    compiled = re.compile(pattern)
    return text(lambda raw: None if compiled.fullmatch(raw) else f"must be {words}")


def local(what: str, why: str = "") -> Scalar:
    """A path on this machine, or the same as a `file://` URL; no other URL.

    Args:
        what: the path names, such as `folder`.
        why: it cannot be elsewhere; ends the message.
    """

    def fault(location: str) -> str | None:
        if not location:
            return "is empty"
        if _SCHEME.match(location) and not _FILE_URL.fullmatch(location):
            return f"must be a {what} of this machine, as a path or as file:///PATH{why}"
        return None

    return text(fault, names="local")


def local_path(location: str) -> str:
    """The path that a `file://` URL names; anything else as it is."""
    url = _FILE_URL.fullmatch(location)
    return location if url is None else unquote(url["path"])


def storage() -> Scalar:
    """A path on this machine, or the URL of shared storage."""
    return text(storage_fault, names="storage")


def name_fault(name: str) -> str | None:
    """What is wrong with the name of a vhost, user or header."""
    return short_string_fault(name) if name else "is empty"


def short_string_fault(name: str) -> str | None:
    """What is wrong with an exchange name or routing key, which may be empty."""
    too_long = len(name.encode()) > MAX_NAME_BYTES
    return f"is longer than {MAX_NAME_BYTES} bytes" if too_long else None


def is_url(location: str) -> bool:
    """Whether a location is shared storage rather than a path on this machine."""
    return _URL.fullmatch(location) is not None


def storage_fault(location: str) -> str | None:
    """What is wrong with a location; it is not repeated, for it may hold a password."""
    if not location:
        return "is empty"
    url = _URL.fullmatch(location)
    if url is not None and (":" in url["authority"].rpartition("@")[0] or url["rest"]):
        return "must hold no password and no query: credentials go into tables.storage_options"
    if url is not None and url["scheme"] not in STORAGE_SCHEMES:
        return f"must be a path, or a URL that begins with one of {', '.join(STORAGE_SCHEMES)}"
    return None
