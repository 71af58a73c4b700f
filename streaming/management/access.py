"""Who asks, and what they may: Basic authentication and RabbitMQ's user tags.

A user without any of the four tags may not use the API. Failed logins of a name from one place are
limited; RabbitMQ does not do that.
"""

import base64
import binascii
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from starlette.requests import Request

from streaming.amqp.login import User, Users
from streaming.listening import is_loopback
from streaming.management.errors import ApiError, not_authorised

MAX_FAILURES: Final = 10
"""Failed logins of one name from one place within the window."""

WINDOW_S: Final = 60.0
MAX_KNOWN: Final = 10_000

ADMINISTRATORS: Final = frozenset({"administrator"})
POLICYMAKERS: Final = ADMINISTRATORS | {"policymaker"}
MONITORS: Final = ADMINISTRATORS | {"monitoring"}
MANAGERS: Final = POLICYMAKERS | MONITORS | {"management"}

_CHALLENGE: Final = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}


def has_tag(user: User, tags: frozenset[str]) -> bool:
    """Whether a user has one of these tags."""
    return not tags.isdisjoint(user.tags)


class FailedLogins:
    """Counts failed logins by name and place.

    Args:
        monotonic: a clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._failures: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def check(self, name: str, place: str) -> None:
        """429 if this name has failed from there too often."""
        times = self._failures.get((name, place))
        if times is None:
            return
        now_s = self._monotonic()
        while times and now_s - times[0] >= WINDOW_S:
            times.popleft()
        if len(times) >= MAX_FAILURES:
            wait_s = max(1, round(times[0] + WINDOW_S - now_s))
            reason = f"Too many failed logins of this user: try again in {wait_s} s"
            raise ApiError(429, "too_many_attempts", reason, {"retry-after": str(wait_s)})

    def failed(self, name: str, place: str) -> None:
        """Note a failure."""
        times = self._failures.setdefault((name, place), deque(maxlen=MAX_FAILURES))
        times.append(self._monotonic())
        self._failures.move_to_end((name, place))
        while len(self._failures) > MAX_KNOWN:
            self._failures.popitem(last=False)

    def succeeded(self, name: str, place: str) -> None:
        """Forget the failures of a name."""
        self._failures.pop((name, place), None)


class Gate:
    """Lets users in.

    Attributes:
        attempts, failures: how many logins there were, for the statistics.
    """

    def __init__(self, users: Callable[[], Users], failed: FailedLogins | None = None) -> None:
        self._users = users
        self._failed = failed or FailedLogins()
        self.attempts = self.failures = 0

    def user(self, request: Request) -> User:
        """The user of a request.

        Raises:
            ApiError: 401; 400, the header cannot be read; or 429 after too many failures.
        """
        headers = request.headers.getlist("authorization")
        if not headers:
            raise ApiError(401, headers=_CHALLENGE)
        if len(headers) > 1:
            raise ApiError(400)
        [header] = headers
        credentials = _credentials(header)
        if credentials is None and header.lower().startswith("bearer "):
            raise ApiError(401, "not_authorized", "Not_Authorized")
        if credentials is None:
            raise ApiError(400)
        return self.log_in(*credentials, "" if request.client is None else request.client.host)

    def log_in(self, name: str, password: bytes, place: str) -> User:
        """Let a user in by password; see `user`."""
        self._failed.check(name, place)
        self.attempts += 1
        user = self._users().by_name.get(name)
        if user is None or not password or not user.has_password(password):
            self.failures += 1
            self._failed.failed(name, place)
            raise ApiError(401, "not_authorized", "Not_Authorized")
        self._failed.succeeded(name, place)
        if user.loopback_only and not is_loopback(place):
            raise not_authorised("User can only log in via localhost")
        if not has_tag(user, MANAGERS):
            raise not_authorised("Not management user")
        return user


def _credentials(header: str) -> tuple[str, bytes] | None:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (name.decode("utf-8", "replace"), password) if colon else None
