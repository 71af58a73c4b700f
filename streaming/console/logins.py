"""Who a request to the console is from, and where it may come from.

    a token in a link   exchanged once for a cookie; an administrator, on this machine alone
    credentials         HTTP Basic, users and hashed passwords in a file
    a proxy's header    the proxy has authenticated the user, and knows the secret

Every request must name a known host, which defeats rebinding of DNS names. An action must also come
from a page of the console itself, and so must a request for a file, or with SQL of the user.
"""

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers

from streaming.console.attempts import Attempts
from streaming.console.rights import ROLES, Role, User
from topology.errors import DlxError

COOKIE: Final = "dlx_console"
"""How the names of cookies begin. Browsers tell hosts apart, and not ports: each console of a host
has its own."""

PROXY_SECRET: Final = "x-dlx-proxy-secret"  # noqa: S105 - the name of a header
MIN_SECRET: Final = 16
OPERATOR: Final = "guest"
"""The user for whom someone with the link acts, as `dlx` does without --user."""

MAX_SESSIONS: Final = 1_000
_SCRYPT: Final = {"n": 2**14, "r": 8, "p": 1}
_HASH: Final = re.compile(r"scrypt\$(?P<salt>[0-9a-f]{32})\$(?P<key>[0-9a-f]{64})")


class LoginsError(DlxError):
    """The users of the console cannot be read."""


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    password: str
    role: Role = "viewer"
    administrator: bool = False


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    users: dict[str, _Entry]


class Logins:
    """The one-time tokens and the sessions that they began.

    Args:
        announce: is told each new link's token; a new one follows when one is used.
    """

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._token = ""
        self._key = secrets.token_bytes(32)
        self._sessions: dict[bytes, None] = {}
        self.renew()

    def renew(self) -> None:
        """Make and announce a new token; the one before is void."""
        self._token = secrets.token_urlsafe(32)
        self._announce(self._token)

    def exchange(self, token: str) -> str | None:
        """Return a new session for a valid token, which ends it; None if it is not valid."""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        session = secrets.token_urlsafe(32)
        self._sessions[self._digest(session)] = None
        while len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self.renew()
        return session

    def knows(self, session: str | None) -> bool:
        """Whether a session was begun here."""
        return session is not None and self._digest(session) in self._sessions

    def end(self, session: str) -> None:
        """Log out."""
        self._sessions.pop(self._digest(session), None)

    def _digest(self, session: str) -> bytes:
        return hmac.digest(self._key, session.encode(), "sha256")


class Credentials:
    """The users of a file, for HTTP Basic authentication.

    Raises:
        LoginsError: the file cannot be read; the text names the place and the remedy.
    """

    def __init__(self, path: Path) -> None:
        self._users = _read(path)
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, User] = {}
        self._attempts: Attempts[User] = Attempts()

    def known(self, authorization: str | None) -> User | None:
        """Return the user of a header `Authorization` who has logged in with it before."""
        return None if authorization is None else self._known.get(self._digest(authorization))

    async def log_in(self, authorization: str | None, client: str) -> User | None:
        """Return the user of a header; None if it names none, or the password is wrong.

        Raises:
            TooManyAttemptsError: it must be tried again later.
        """
        if authorization is None:
            return None
        scheme, _, encoded = authorization.partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            return None

        def attempt() -> User | None:
            return self.known(authorization) or self._check(authorization, name, password)

        return await asyncio.wrap_future(self._attempts.submit(name, client, attempt))

    def _digest(self, authorization: str) -> bytes:
        return hmac.digest(self._key, authorization.encode(), "sha256")

    def _check(self, authorization: str, name: str, password: str) -> User | None:
        entry = self._users.get(name)
        stored = entry.password if entry is not None else _NOBODY
        if not _matches(password, stored) or entry is None:
            return None
        found = User(name, entry.role, entry.administrator)
        if len(self._known) < MAX_SESSIONS:
            self._known[self._digest(authorization)] = found
        return found


def _only(headers: Mapping[str, str], name: str) -> str | None:
    """The value of a header; None if it is there twice: one may be the browser's own."""
    values = headers.getlist(name) if isinstance(headers, Headers) else [headers.get(name)]
    return values[0] if len(values) == 1 else None


def _read(path: Path) -> Mapping[str, _Entry]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
        users = msgspec.convert(document, _File).users
    except OSError as error:
        raise LoginsError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, msgspec.ValidationError) as error:
        example = "[users.anna] with password and role (viewer, operator or editor)"
        raise LoginsError(f"{path}: {error}; expected tables such as {example}") from None
    if not users:
        raise LoginsError(f"{path}: has no users; add a table such as [users.anna]")
    for name, entry in users.items():
        if not _HASH.fullmatch(entry.password):
            raise LoginsError(
                f"{path}: users.{name}.password is not a hash; `dlx console --hash-password` "
                "prints one"
            )
    return users


def hash_password(password: str) -> str:
    """Return the salted hash of a password, as a file of credentials has it."""
    salt = secrets.token_bytes(16)
    return f"scrypt${salt.hex()}${_scrypt(password, salt)}"


def _scrypt(password: str, salt: bytes) -> str:
    return hashlib.scrypt(password.encode(), salt=salt, dklen=32, **_SCRYPT).hex()


def _matches(password: str, stored: str) -> bool:
    found = _HASH.fullmatch(stored)
    assert found is not None, "checked when it was read"
    key = _scrypt(password, bytes.fromhex(found["salt"]))
    return hmac.compare_digest(key, found["key"])


_NOBODY: Final = f"scrypt${'0' * 32}${'0' * 64}"
"""No password has this hash; a name that does not exist takes as long as one that does."""


def read_proxy_secret(path: Path) -> str:
    """Read the secret that a proxy must send.

    Raises:
        LoginsError: the file cannot be read, or has none.
    """
    try:
        secret = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "is not text"
        raise LoginsError(f"{path}: cannot be read: {said}") from None
    if len(secret) < MIN_SECRET or not secret.isascii() or not secret.isprintable():
        raise LoginsError(
            f"{path}: must hold a secret of at least {MIN_SECRET} characters in ASCII, such as one "
            "of `openssl rand -hex 32`"
        )
    return secret


class Guard:
    """Decides who a request is from, and whether it may come in.

    Args:
        hosts: values of the header `Host` that are answered.
        schemes: the schemes of the console's own pages.
        logins: for links with a token; None if there are credentials or a proxy.
        proxies: the addresses from which `user_header` counts.
        proxy_secret: what the proxy sends besides, since every program of the machine could name a
            user.
        place: what tells this console from others of the same host.
    """

    def __init__(
        self,
        hosts: frozenset[str],
        *,
        logins: Logins | None = None,
        credentials: Credentials | None = None,
        user_header: str | None = None,
        role_header: str | None = None,
        proxies: frozenset[str] = frozenset({"127.0.0.1", "::1"}),
        proxy_secret: str | None = None,
        is_read_only: bool = False,
        place: str = "",
    ) -> None:
        assert sum(one is not None for one in (logins, credentials, user_header)) == 1
        assert (user_header is None) == (proxy_secret is None)
        self.cookie = f"{COOKIE}_{hashlib.sha256(place.encode()).hexdigest()[:12]}"
        self.hosts = hosts
        self.logins = logins
        self.credentials = credentials
        self.is_read_only = is_read_only
        self._user_header = user_header
        self._role_header = role_header
        self._proxies = proxies
        self._proxy_secret = (proxy_secret or "").encode()

    def user(
        self, headers: Mapping[str, str], cookies: Mapping[str, str], client: str | None
    ) -> User | None:
        """Return who a request is from, at once; None if nobody is logged in."""
        if self.logins is not None:
            known = self.logins.knows(cookies.get(self.cookie))
            return User(OPERATOR, "editor", administrator=True) if known else None
        if self.credentials is not None:
            return self.credentials.known(headers.get("authorization"))
        assert self._user_header is not None
        name = _only(headers, self._user_header)
        secret = _only(headers, PROXY_SECRET) or ""
        if not name or client not in self._proxies:
            return None
        if not hmac.compare_digest(secret.encode(), self._proxy_secret):
            return None
        role = _only(headers, self._role_header) if self._role_header else None
        known_role = next((one for one in ROLES if one == role), ROLES[0])
        return User(name, known_role)

    async def log_in(self, headers: Mapping[str, str], client: str | None) -> User | None:
        """Return who a request is from that has a password; None if it has none that is right.

        Raises:
            TooManyAttemptsError: it must be tried again later.
        """
        if self.credentials is None:
            return None
        return await self.credentials.log_in(headers.get("authorization"), client or "")

    def knows_host(self, host: str | None) -> bool:
        """Whether the console answers for a host."""
        return host is not None and host.lower() in self.hosts

    def may_be_own_page(self, headers: Mapping[str, str]) -> bool:
        """Whether a request that only reads may have come from a page of the console, or no page.

        Browsers say where a request comes from, on HTTPS and localhost at least; elsewhere they
        name the page, unless that page does not want it. Other programs say nothing.
        """
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site in {"same-origin", "none"}
        referrer = headers.get("referer")
        if referrer is None:
            return not headers.get("user-agent", "").startswith("Mozilla/")
        return urlsplit(referrer).netloc.lower() == (headers.get("host") or "").lower()

    def is_own_page(self, headers: Mapping[str, str]) -> bool:
        """Whether an action was sent by a page of the console."""
        site = headers.get("sec-fetch-site")
        if site is not None and site != "same-origin":
            return False
        origin = urlsplit(headers.get("origin") or "")
        return (
            origin.scheme in {"http", "https"}
            and origin.netloc.lower() == (headers.get("host") or "").lower()
        )
