"""Names of Kafka topics: what Kafka allows, and the outbound topic of a (vhost, user)."""

import re
from typing import Annotated, Final

from streaming.config.sections import Section
from streaming.config.settings import Setting
from streaming.config.types import milliseconds, text, whole

MAX_PARTITIONS: Final = 10_000
MAX_TOPIC_CHARACTERS: Final = 249

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]+")
_PLACEHOLDER: Final = re.compile(r"\{(?:vhost|user)\}")
_ALIVE: Final = ".alive"
_KEPT: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")


def topic_fault(name: str) -> str | None:
    """What Kafka would say against a topic of this name, or None."""
    if name in {"", ".", ".."}:
        return "is no name of a Kafka topic"
    if not _TOPIC.fullmatch(name):
        return "must consist of letters, digits, '.', '_' and '-', as Kafka asks of topics"
    if len(name) > MAX_TOPIC_CHARACTERS:
        return f"is longer than {MAX_TOPIC_CHARACTERS} characters, Kafka's limit"
    return None


def collision_form(name: str) -> str:
    """What two topics must not share: Kafka's metrics do not tell '.' from '_'."""
    return name.replace(".", "_")


def escaped(name: str) -> str:
    """A vhost's or user's name for use in a topic's: other bytes as `_` and two hex digits.

    Different names stay different: `/` gives `_2f`, `_2f` gives `_5f2f`.
    """
    return "".join(chr(byte) if byte in _KEPT else f"_{byte:02x}" for byte in name.encode())


def alive_topic(outbound: str) -> str:
    """The topic beside an outbound one in which the job says once a second that it lives."""
    return outbound + _ALIVE


def _pattern_fault(pattern: str) -> str | None:
    for placeholder in ("{vhost}", "{user}"):
        if pattern.count(placeholder) != 1:
            return f"must contain {placeholder} once: each pair of vhost and user has its own topic"
    return topic_fault(_PLACEHOLDER.sub("x", pattern))


class OutboundSettings(Section, frozen=True, kw_only=True):
    """`[outbound]`: where deliveries, confirms, returns and replies go."""

    topic: Annotated[
        str,
        Setting(
            text(_pattern_fault),
            "One topic for each vhost and user, so that Kafka's ACLs can keep tenants apart. In "
            'their names, other characters than letters, digits and "-" become _ and two hex '
            "digits: the vhost / is _2f. In a second topic beside each, of its name with .alive at "
            "the end, the job says once a second that it lives: who may read the one, should read "
            "the other.",
            outcome=True,
        ),
    ] = "dlx.out.{vhost}.{user}"
    partitions: Annotated[
        int,
        Setting(
            whole(1, MAX_PARTITIONS),
            "Partitions of each. Records are keyed by channel; one is enough for most users, and "
            "lets a reader follow a single log.",
        ),
    ] = 1
    retention_ms: Annotated[
        int,
        Setting(
            milliseconds(60_000),
            "How long records stay to be read. A day: whoever was away for longer has lost its "
            "leases, and its messages are back in their queues.",
        ),
    ] = 86_400_000

    def topic_of(self, vhost: str, user: str) -> str:
        """The topic that a user of a vhost reads."""
        return self.topic.replace("{vhost}", escaped(vhost)).replace("{user}", escaped(user))
