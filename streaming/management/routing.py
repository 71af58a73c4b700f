"""Resources: a path, who may use it, and what each method does there.

Paths are split before they are decoded, so a name may have any character: `/api/queues/%2F/a%2Fb`.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from streaming.amqp.login import User
from streaming.amqp.vhosts import OpenVhost
from streaming.broker.events import Actor
from streaming.management.access import ADMINISTRATORS, MONITORS, POLICYMAKERS, Gate, has_tag
from streaming.management.bodies import MAX_OBJECT_BYTES, Members, read_object
from streaming.management.counting import Counting
from streaming.management.errors import ApiError, elsewhere, missing, not_authorised, not_found
from streaming.management.port import Front
from streaming.management.sharing import QueueNames, SharedAnswers, WrittenQueues

PREFIX: Final = "/api/"
_KIND: Final = re.compile(r"\s*[\w.+*-]+/[\w.+*-]+")
"""How the type of a body begins."""

JSON_ALONE: Final = frozenset({"application/json"})
"""The types of bodies that some resources take."""

NO_RANGE: Final = "invalid_range_parameters"
BAD_REQUEST: Final = "bad_request"
"""The errors of ranges that make no sense: of lists that are pages, and of the rest."""

_BROKEN: Final = re.compile("%(?![0-9A-Fa-f]{2})")
MAX_PATH: Final = 8_192
"""The longest path that is looked at, in bytes."""


@dataclass(frozen=True, slots=True)
class Api:
    """What all resources share.

    Attributes:
        listeners: name of the protocol, address and port of what the server listens on.
        shared: answers about very many queues.
        names: of the queues, in order.
        written: queues in JSON.
        enabled: the feature flags that were enabled since the start.
    """

    front: Front
    gate: Gate
    counting: Counting
    listeners: Callable[[], list[tuple[str, str, int]]]
    shared: SharedAnswers = field(default_factory=SharedAnswers)
    names: QueueNames = field(default_factory=QueueNames)
    written: WrittenQueues = field(default_factory=WrittenQueues)
    enabled: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a user who is known.

    Attributes:
        names: the variable parts of the path.
        place: the address of the client.
        body: empty for requests without one.
    """

    api: Api
    method: str
    user: User
    names: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    place: str
    body: bytes

    @property
    def front(self) -> Front:
        """The front."""
        return self.api.front

    @property
    def actor(self) -> Actor:
        """The user, as the broker knows who causes something."""
        return Actor(self.user.name, "management")

    def members(self) -> Members:
        """The JSON object in the body; ApiError 400 if there is none."""
        return read_object(self.body)

    def has(self, tags: frozenset[str]) -> bool:
        """Whether the user has one of these tags."""
        return has_tag(self.user, tags)

    def name_of(self, part: str) -> str:
        """A name in the path; `amq.default` is the default exchange."""
        name = self.names[part]
        return "" if name == "amq.default" else name

    @property
    def vhost_if_there(self) -> OpenVhost | None:
        """The vhost in the path, if there is one; ApiError 503 if another front serves it."""
        found = self.front.server.vhosts.get(self.names["vhost"])
        if found is None and self.names["vhost"] in self.front.server.elsewhere:
            raise elsewhere(self.names["vhost"])
        return found

    @property
    def vhost(self) -> OpenVhost:
        """The vhost in the path; ApiError 404 if there is none."""
        found = self.vhost_if_there
        if found is None:
            raise missing() if self.method in {"GET", "DELETE"} else not_found("vhost_not_found")
        return found

    def may_log_in(self, vhost: OpenVhost) -> bool:
        """Whether the user has permissions in a vhost."""
        return vhost.shard.vhost.permissions.knows(self.user.name)

    def vhosts(self, seeing_all: frozenset[str] = ADMINISTRATORS) -> list[OpenVhost]:
        """The vhosts whose objects the user sees in lists, by name; all with one of these tags."""
        vhosts = sorted(self.front.server.vhosts.items())
        sees_all = self.has(seeing_all)
        return [vhost for _, vhost in vhosts if sees_all or self.may_log_in(vhost)]

    def one_or_all(self, seeing_all: frozenset[str] = ADMINISTRATORS) -> list[OpenVhost]:
        """The vhost in the path, or all that the user sees."""
        return [self.vhost] if "vhost" in self.names else self.vhosts(seeing_all)


Handler = Callable[[Asked], Awaitable[Any]]
Rule = Callable[[Asked], str | None]
"""Why a user may not use a resource; None if they may."""


def anyone(_asked: Asked) -> str | None:
    """All users of the API."""
    return None


def administrator(asked: Asked) -> str | None:
    """Administrators."""
    return None if asked.has(ADMINISTRATORS) else "Not administrator user"


def monitor(asked: Asked) -> str | None:
    """Administrators and those who monitor."""
    return None if asked.has(MONITORS) else "Not monitor user"


def of_vhost(asked: Asked) -> str | None:
    """Administrators, and users with permissions in the vhost of the path."""
    return None if _is_open(asked, ADMINISTRATORS) else "User not authorised to access virtual host"


def visible_vhost(asked: Asked) -> str | None:
    """Those who monitor, administrators, and users with permissions in the vhost of the path."""
    return None if _is_open(asked, MONITORS) else "User not authorised to access virtual host"


def policymaker(asked: Asked) -> str | None:
    """Administrators, and policymakers with permissions in the vhost of the path."""
    allowed = asked.has(ADMINISTRATORS) or (
        asked.has(POLICYMAKERS) and _is_open(asked, ADMINISTRATORS)
    )
    return None if allowed else "User not authorised to access object"


def any_policymaker(asked: Asked) -> str | None:
    """Administrators and policymakers."""
    return None if asked.has(POLICYMAKERS) else "User not authorised to access object"


def monitor_or_self(asked: Asked) -> str | None:
    """Those who monitor, administrators, and the user in the path."""
    return _own(asked, MONITORS)


def administrator_or_self(asked: Asked) -> str | None:
    """Administrators, and the user in the path."""
    return _own(asked, ADMINISTRATORS)


def _own(asked: Asked, always: frozenset[str]) -> str | None:
    allowed = asked.has(always) or asked.names["user"] == asked.user.name
    return None if allowed else "User not authorised to access object"


def _is_open(asked: Asked, always: frozenset[str]) -> bool:
    """Whether the vhost of the path is open to the user; one that does not exist is."""
    if asked.has(always) or "vhost" not in asked.names:
        return True
    vhost = asked.front.server.vhosts.get(asked.names["vhost"])
    return vhost is None or asked.may_log_in(vhost)


@dataclass(frozen=True, slots=True)
class Resource:
    """A path and its methods.

    Attributes:
        path: below /api/; parts in braces are variable.
        rule: who may use it; `rules` has that of single methods.
        is_open: whether it needs no login.
        kinds: the types of bodies that it takes; None: any.
        has_columns: whether `columns` chooses members of what GET answers, as of all but few.
        has_bert: whether GET answers in terms of Erlang to those who want it.
        has_head: whether HEAD is answered.
        most_bytes: what a body may have.
        no_range: the error of ranges of samples that make no sense; empty if none are looked at.
    """

    path: str
    rule: Rule
    handlers: Mapping[str, Handler]
    rules: Mapping[str, Rule] | None = None
    is_open: bool = False
    has_columns: bool = True
    kinds: frozenset[str] | None = None
    has_bert: bool = True
    has_head: bool = True
    no_range: str = ""
    most_bytes: int = MAX_OBJECT_BYTES

    @property
    def allowed(self) -> str:
        """The methods, as the header says them."""
        names = [name for name in ("GET", "PUT", "POST", "DELETE") if name in self.handlers]
        head = ["HEAD"] if "GET" in names and self.has_head else []
        return ", ".join([*head, *names, "OPTIONS"])

    def handler(self, method: str) -> Handler | None:
        """What a method does; None if it is not allowed."""
        if method == "HEAD":
            return self.handlers.get("GET") if self.has_head else None
        return self.handlers.get(method)

    def takes(self, kind: str | None) -> bool:
        """Whether it takes a body of this type; None: its type is not said."""
        if self.kinds is not None:
            return (kind or "").partition(";")[0].strip().lower() in self.kinds
        return kind is None or _KIND.match(kind) is not None

    def refuse(self, asked: Asked) -> None:
        """401 if the user may not use it."""
        rule = (self.rules or {}).get(asked.method, self.rule)
        reason = rule(asked)
        if reason is not None:
            raise not_authorised(reason)


class Resources:
    """All resources, found by path."""

    def __init__(self, resources: list[Resource]) -> None:
        self._by_shape: dict[tuple[int, str], list[tuple[list[str], Resource]]] = {}
        for resource in resources:
            parts = resource.path.split("/")
            self._by_shape.setdefault((len(parts), parts[0]), []).append((parts, resource))

    def find(self, raw_path: bytes) -> tuple[Resource, dict[str, str]] | None:
        """The resource at a path as it was sent, with the variable parts.

        Raises:
            ApiError: 400, it has a percent sign without two digits.
        """
        try:
            path = raw_path[:MAX_PATH].decode("ascii")
        except UnicodeDecodeError:
            return None
        path = path.removeprefix(PREFIX).removesuffix("/")
        if _BROKEN.search(path):
            raise ApiError(400)
        sent = path.split("/")
        for parts, resource in self._by_shape.get((len(sent), unquote(sent[0])), ()):
            names = _matched(parts, sent)
            if names is not None:
                return resource, names
        return None


def _matched(parts: list[str], sent: list[str]) -> dict[str, str] | None:
    names = {}
    for part, text in zip(parts, sent, strict=True):
        if part.startswith("{"):
            names[part[1:-1]] = unquote(text, errors="surrogateescape")
        elif part not in {text, unquote(text)}:
            return None
    return names
