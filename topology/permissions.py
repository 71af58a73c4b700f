"""Who may configure, write and read which objects of one vhost.

Each user has three patterns, unanchored and matched in linear time. A user without permissions may
do nothing; an empty pattern grants nothing. The default exchange is checked under the name
`amq.default`, as in RabbitMQ. The user None is the operator, who may do everything.
"""

from typing import Literal

from topology.declarations import Binding, Exchange, Permission, Queue, TopicPermission
from topology.errors import UnsupportedPatternError
from topology.patterns import Pattern
from topology.refusals import Refusal, access_refused

Access = Literal["configure", "write", "read"]
ResourceKind = Literal["exchange", "queue"]
Need = tuple[Access, ResourceKind, str]
"""What a command needs: an access to an object, by kind and name."""

_DEFAULT_EXCHANGE = "amq.default"
_NOTHING = "^$"


class PermissionTable:
    """The permissions of one vhost."""

    def __init__(self) -> None:
        self._records: dict[str, Permission] = {}
        self._patterns: dict[str, dict[Access, Pattern]] = {}

    def set(self, permission: Permission) -> None:
        """Set the permissions of a user, replacing previous ones.

        Raises:
            UnsupportedPatternError: a pattern cannot be used; nothing has changed.
        """
        self._patterns[permission.user] = {
            "configure": Pattern(permission.configure or _NOTHING),
            "write": Pattern(permission.write or _NOTHING),
            "read": Pattern(permission.read or _NOTHING),
        }
        self._records[permission.user] = permission

    def clear(self, user: str) -> bool:
        """Remove all permissions of a user; False if it had none."""
        self._patterns.pop(user, None)
        return self._records.pop(user, None) is not None

    def knows(self, user: str) -> bool:
        """Whether a user has permissions."""
        return user in self._records

    def permissions(self) -> list[Permission]:
        """The permissions, by user."""
        return [self._records[user] for user in sorted(self._records)]

    def of(self, user: str) -> Permission | None:
        """The permissions of a user, if there are any."""
        return self._records.get(user)

    def allows(self, user: str | None, access: Access, name: str) -> bool:
        """Whether a user has this access to the exchange or queue of that name."""
        if user is None:
            return True
        patterns = self._patterns.get(user)
        return patterns is not None and patterns[access].search(name or _DEFAULT_EXCHANGE)

    def refuse(self, user: str | None, needs: list[Need], vhost: str) -> Refusal | None:
        """403 for the first access that the user lacks; None if the user has them all."""
        for access, kind, name in needs:
            if not self.allows(user, access, name):
                asked_for = name or _DEFAULT_EXCHANGE
                return access_refused(
                    f"{access} access to {kind} '{asked_for}' in vhost '{vhost}'"
                    f" refused for user '{user}'"
                )
        return None


class TopicPermissionTable:
    """Which routing keys users may write to, and bind with, at topic exchanges of one vhost.

    A user without an entry for an exchange is not restricted there. In the patterns, `{username}`
    and `{vhost}` stand for the names.
    """

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], TopicPermission] = {}
        self._patterns: dict[tuple[str, str, Access, str], Pattern] = {}

    def set(self, permission: TopicPermission) -> None:
        """Set the permission of a user at an exchange, replacing the previous one.

        Raises:
            UnsupportedPatternError: a pattern cannot be used; nothing has changed.
        """
        topic_patterns(permission, "vhost")
        self._records[permission.user, permission.exchange] = permission
        self._patterns.clear()

    def clear(self, user: str, exchange: str | None = None) -> list[TopicPermission]:
        """Remove the permissions of a user, at one exchange or at all; return them."""
        removed = [
            one
            for one in self.permissions()
            if one.user == user and exchange in {None, one.exchange}
        ]
        for one in removed:
            del self._records[one.user, one.exchange]
        self._patterns.clear()
        return removed

    def knows(self, user: str | None, exchange: str) -> bool:
        """Whether the user is restricted at the exchange."""
        return bool(self._records) and (user, exchange) in self._records

    def permissions(self) -> list[TopicPermission]:
        """The permissions, by user and exchange."""
        return [one for _, one in sorted(self._records.items())]

    def allows(
        self, user: str, access: Access, exchange: str, routing_key: str, vhost: str
    ) -> bool:
        """Whether the user may write to this key, or bind with it.

        A pattern that the name of the vhost makes unusable allows nothing.
        """
        permission = self._records.get((user, exchange))
        if permission is None:
            return True
        key = (user, exchange, access, vhost)
        pattern = self._patterns.get(key)
        if pattern is None:
            try:
                pattern = topic_patterns(permission, vhost)[access]
            except UnsupportedPatternError:
                return False
            self._patterns[key] = pattern
        return pattern.search(routing_key)


def topic_patterns(permission: TopicPermission, vhost: str) -> dict[Access, Pattern]:
    """The patterns of a topic permission, with the names in them.

    Raises:
        UnsupportedPatternError: one of them cannot be used.
    """

    def pattern(text: str) -> Pattern:
        text = text.replace("{username}", permission.user).replace("{vhost}", vhost)
        return Pattern(text or _NOTHING)

    return {"write": pattern(permission.write), "read": pattern(permission.read)}


def needs_to_declare_exchange(exchange: Exchange) -> list[Need]:
    """Configure it; with an alternate exchange, also read it and write to the alternate."""
    needs: list[Need] = [("configure", "exchange", exchange.name)]
    alternate = exchange.arguments.get("alternate-exchange")
    if isinstance(alternate, str):
        needs += [("read", "exchange", exchange.name), ("write", "exchange", alternate)]
    return needs


def needs_to_declare_queue(queue: Queue) -> list[Need]:
    """Configure it; with a dead-letter or alternate exchange, also read it and write to those."""
    needs: list[Need] = [("configure", "queue", queue.name)]
    for argument in ("x-dead-letter-exchange", "x-alternate-exchange"):
        target = queue.arguments.get(argument)
        if isinstance(target, str):
            needs += [("read", "queue", queue.name), ("write", "exchange", target)]
    return needs


def needs_to_bind(binding: Binding) -> list[Need]:
    """Write to the destination and read the source, to bind or unbind."""
    return [
        ("write", binding.destination_type, binding.destination),
        ("read", "exchange", binding.source),
    ]
