"""What the API keeps in the logs of vhosts: users, what is said of vhosts, global parameters.

A user and a global parameter are in the log of each vhost that the front leads, so that any of them
is enough to know them again; of several, the newest counts. What is deleted stays as such a record.
The hash of a password is the secret of its record: no event and no table shows it.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from streaming.amqp.login import User
from streaming.management.port import VhostInfo
from topology.limits import UserLimits

USER: Final = "user"
VHOST: Final = "vhost"
GLOBAL: Final = "global-parameter"

Key = tuple[str, str]
"""Component and name."""


class Kept(msgspec.Struct, frozen=True):
    """One version of an object.

    Attributes:
        at_ms: orders versions; no two of an object have the same.
        value: None if it is deleted.
    """

    at_ms: int
    value: Any = None
    is_deleted: bool = False


class Version(NamedTuple):
    """A version with its secret."""

    kept: Kept
    secret: str | None


class KeptUser(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user without its name and its hash."""

    hashing_algorithm: str
    tags: tuple[str, ...] = ()
    limits: UserLimits = UserLimits()
    loopback_only: bool = False


def of_user(user: User) -> tuple[dict[str, Any], str | None]:
    """A user as value and secret."""
    kept = KeptUser(user.hashing_algorithm, user.tags, user.limits, user.loopback_only)
    return msgspec.to_builtins(kept), user.password_hash


def to_user(name: str, version: Version) -> User:
    """The user that `of_user` wrote."""
    kept = msgspec.convert(version.kept.value, KeptUser)
    return User(
        name, version.secret, kept.hashing_algorithm, kept.tags, kept.loopback_only, kept.limits
    )


def of_info(info: VhostInfo) -> dict[str, Any]:
    """What is said of a vhost as a value."""
    return dict(msgspec.to_builtins(info))


def to_info(version: Version) -> VhostInfo:
    """What `of_info` wrote."""
    return msgspec.convert(version.kept.value, VhostInfo)


class Versions:
    """The newest version of each object."""

    def __init__(self) -> None:
        self._newest: dict[Key, Version] = {}

    def learn(self, parameters: Mapping[Key, tuple[str, str | None]]) -> dict[Key, Version]:
        """Take what a vhost has kept; return what is news."""
        news = {}
        for key, (text, secret) in parameters.items():
            try:
                kept = msgspec.json.decode(text, type=Kept)
            except msgspec.DecodeError:
                continue  # not of the API: anyone may set parameters who administers the vhost
            if self.take(key, Version(kept, secret)):
                news[key] = Version(kept, secret)
        return news

    def take(self, key: Key, version: Version) -> bool:
        """Take a version; whether it is the newest."""
        known = self._newest.get(key)
        if known is not None and known.kept.at_ms >= version.kept.at_ms:
            return False
        self._newest[key] = version
        return True

    def shared(self) -> dict[Key, Version]:
        """The newest versions of what is in the log of each vhost."""
        return {key: one for key, one in self._newest.items() if key[0] != VHOST}

    def next_ms(self, key: Key, now_ms: int) -> int:
        """The instant of the next version."""
        known = self._newest.get(key)
        return now_ms if known is None else max(now_ms, known.kept.at_ms + 1)

    def __contains__(self, key: Key) -> bool:
        return key in self._newest

    def __len__(self) -> int:
        return len(self._newest)
