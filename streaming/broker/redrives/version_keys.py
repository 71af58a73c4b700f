"""The routing keys of versions of edited letters; a key names the hash of the content."""

from typing import Final

VERSION_KEY: Final = "amq.dlx.version."
"""The routing keys of versions begin with this; no queue can have such a name."""

_HASH_DIGITS: Final = 64
_ZEROS: Final = "0" * 40
_DIGITS: Final = frozenset("0123456789abcdef")


def name_of_content(offset: int) -> str:
    """Names the content of a message as a version, by its offset in the log of its vhost.

    It looks like a hash, and is none: it begins with zeros.
    """
    return f"{offset:0{_HASH_DIGITS}x}"


def is_name_of_content(version: str) -> bool:
    """Whether a version is the content of a message, which only a front publishes."""
    return version.startswith(_ZEROS)


def is_hash(text: str) -> bool:
    """Whether a text is a SHA-256 in hexadecimal digits."""
    return len(text) == _HASH_DIGITS and _DIGITS.issuperset(text)


def version_of(exchange: str, routing_key: str) -> str:
    """The hash of the version that a publish is; empty if it is an ordinary publish."""
    version = routing_key.removeprefix(VERSION_KEY)
    return version if not exchange and version != routing_key and is_hash(version) else ""
