"""Who a client is, and what it may open: SASL mechanisms, users and their passwords.

Passwords are kept as RabbitMQ's definitions.json has them: base64 of a salt of 4 bytes and the hash
of salt and password.
"""

import base64
import binascii
import hashlib
import hmac
import logging
import os
import ssl
from typing import Final, NamedTuple

import msgspec

from streaming.amqp.errors import AmqpError, syntax_error
from streaming.amqp.tables import read_table
from topology.limits import UserLimits

logger = logging.getLogger(__name__)

MECHANISMS: Final = ("PLAIN", "AMQPLAIN", "ANONYMOUS")
"""Those that every client is offered."""

_IMPERSONATOR: Final = "impersonator"

_SHOWN_NAME: Final = 100
"""Characters of a name in the log; a client may send any."""

_SALT_SIZE: Final = 4
HASHING_ALGORITHMS: Final = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
}
"""RabbitMQ's names of the hashes, and Python's."""

HASHING_ALGORITHM: Final = "rabbit_password_hashing_sha256"
"""That of new passwords."""

OLD_HASHING_ALGORITHM: Final = "rabbit_password_hashing_md5"

LOOPBACK_USER: Final = "guest"
"""The user that a server without configuration has, and who may connect from this host only."""

_ANONYMOUS: Final = LOOPBACK_USER, LOOPBACK_USER.encode()
"""Whom ANONYMOUS logs in, and with which password: by RabbitMQ's default, as if a client had it."""


class User(msgspec.Struct, frozen=True):
    """One user.

    Attributes:
        password_hash: base64; None: no password lets it in.
        hashing_algorithm: RabbitMQ's name of it.
        loopback_only: it may connect from the server's own host only, as RabbitMQ has it for guest.
        limits: how many connections and channels it may have.
    """

    name: str
    password_hash: str | None = None
    hashing_algorithm: str = HASHING_ALGORITHM
    tags: tuple[str, ...] = ()
    loopback_only: bool = False
    limits: UserLimits = UserLimits()

    @property
    def impersonates(self) -> bool:
        """Whether it may publish in the name of others (`user_id`)."""
        return _IMPERSONATOR in self.tags

    def has_password(self, password: bytes) -> bool:
        """Whether this is the user's password; an empty one never is, as in RabbitMQ."""
        if (
            not password
            or not self.password_hash
            or self.hashing_algorithm not in HASHING_ALGORITHMS
        ):
            return False
        try:
            salted = base64.b64decode(self.password_hash, validate=True)
        except (binascii.Error, ValueError):
            return False
        expected = _hashed(self.hashing_algorithm, salted[:_SALT_SIZE], password)
        return hmac.compare_digest(salted[_SALT_SIZE:], expected)


def _hashed(algorithm: str, salt: bytes, password: bytes) -> bytes:
    return hashlib.new(HASHING_ALGORITHMS[algorithm], salt + password).digest()


def new_password_hash(password: str, salt: bytes | None = None) -> str:
    """The hash of a password, text or as `surrogateescape` reads it, as definitions.json has it."""
    salt = os.urandom(_SALT_SIZE) if salt is None else salt
    hashed = _hashed(HASHING_ALGORITHM, salt, password.encode("utf-8", "surrogateescape"))
    return base64.b64encode(salt + hashed).decode("ascii")


_GUEST_SALT: Final = bytes(_SALT_SIZE)
"""Hides nothing: everybody knows the password."""


class Client(NamedTuple):
    """Where a connection comes from.

    Attributes:
        is_loopback: from the server's own host.
        certificate_name: the name in the client's certificate, if TLS asked for one.
        address: for the log.
        tls: of the connection; None if it has none.
    """

    is_loopback: bool
    certificate_name: str | None = None
    address: str = "a client"
    tls: ssl.SSLObject | None = None


class Users:
    """The users of a server.

    Attributes:
        by_name: all of them.
    """

    def __init__(self, users: list[User]) -> None:
        self.by_name = {user.name: user for user in users}

    @classmethod
    def default(cls, *, remote_guest: bool = False) -> "Users":
        """The user `guest` with the password `guest`, as RabbitMQ has it.

        Its hash is the same at each start and in each front, so exports of definitions are equal.

        Args:
            remote_guest: it may connect from other hosts, too.
        """
        guest = User(
            LOOPBACK_USER,
            new_password_hash(LOOPBACK_USER, _GUEST_SALT),
            tags=("administrator",),
            loopback_only=not remote_guest,
        )
        return cls([guest])

    def login(self, mechanism: str, response: bytes, client: Client) -> User:
        """Let a client in; if not, the log says why.

        Raises:
            AmqpError: 403, as RabbitMQ says it: not why; 502, the response cannot be read.
        """
        name, password = _credentials(mechanism, response, client)
        user = None if name is None else self.by_name.get(name)
        if user is None:
            why = "there is no such user"
        elif mechanism != "EXTERNAL" and not user.has_password(password):
            why = "the password is wrong" if password else "an empty password is never accepted"
        elif user.loopback_only and not client.is_loopback:
            why = "it may connect from this machine only (--remote-guest)"
        else:
            return user
        shown = (name or "")[:_SHOWN_NAME]
        logger.warning(
            "%s: login with %s refused: user %r: %s", client.address, mechanism, shown, why
        )
        raise _refused(mechanism)


def mechanisms(client: Client) -> bytes:
    """The mechanisms that a client is offered: EXTERNAL if its certificate names a user."""
    has_name = client.certificate_name is not None
    return b" ".join((*map(str.encode, MECHANISMS), *((b"EXTERNAL",) if has_name else ())))


def _credentials(mechanism: str, response: bytes, client: Client) -> tuple[str | None, bytes]:
    match mechanism:
        case "PLAIN":
            parts = response.split(b"\0")
            if len(parts) != 3 or parts[0]:  # noqa: PLR2004 - for whom, who, password
                raise syntax_error("response of PLAIN invalid")
            return parts[1].decode("utf-8", "replace"), parts[2]
        case "AMQPLAIN":
            table, _end = read_table(len(response).to_bytes(4) + response)
            name = table.get("LOGIN")
            if "PASSWORD" not in table or not isinstance(name, str | bytes):
                raise syntax_error("response of AMQPLAIN invalid")
            known_as = name if isinstance(name, str) else name.decode("utf-8", "replace")
            password = table["PASSWORD"]
            if isinstance(password, str):
                password = password.encode("utf-8", "surrogateescape")
            return known_as, password if isinstance(password, bytes) else b""
        case "ANONYMOUS":
            return _ANONYMOUS
        case _:
            return client.certificate_name, b""


def _refused(mechanism: str) -> AmqpError:
    return AmqpError(
        403,
        "ACCESS_REFUSED - Login was refused using authentication mechanism "
        f"{mechanism}. For details see the broker logfile.",
    )
