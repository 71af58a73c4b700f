"""What TLS tells of a client, as RabbitMQ says it: its user, its certificate and its cipher."""

import logging
import ssl
from datetime import UTC, datetime
from typing import Any, Final, Literal

logger = logging.getLogger(__name__)

CertificateName = Literal["common_name", "distinguished_name", "subject_alternative_name"]
"""What names the user, as in RabbitMQ's `ssl_cert_login_from`."""

_SHORT: Final = {
    "commonName": "CN",
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "countryName": "C",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "streetAddress": "STREET",
    "userId": "UID",
}
"""OpenSSL's names of attributes, and those that RabbitMQ writes."""

_ABOUT_TLS: Final = (
    *("peer_cert_issuer", "peer_cert_subject", "peer_cert_validity"),
    *("ssl", "ssl_cipher", "ssl_hash", "ssl_key_exchange", "ssl_protocol"),
)
_ESCAPED: Final = frozenset('"+,;<>\\')
_FIRST_PRINTABLE, _LAST_PRINTABLE = 32, 125


class LoggedHandshake(ssl.SSLObject):
    """One side of TLS; the log says why a handshake failed, which some clients do not hear.

    Make it the `sslobject_class` of a server's context.
    """

    def do_handshake(self) -> None:
        """Go on with the handshake."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            logger.warning("the TLS handshake of a client failed: %s", error)
            raise


def user_in(certificate: dict[str, Any] | None, login_from: CertificateName) -> str | None:
    """The user that a certificate names; None if it names none.

    Args:
        certificate: as `SSLSocket.getpeercert` returns it.
    """
    if not certificate:
        return None
    match login_from:
        case "common_name":
            parts = (part for parts in certificate.get("subject", ()) for part in parts)
            name = ",".join(value for key, value in parts if key == "commonName")
        case "distinguished_name":
            name = _distinguished(certificate, "subject")
        case _:
            names = certificate.get("subjectAltName", ())
            name = next((value for kind, value in names if kind == "DNS"), "")
    return name or None


def about_tls(session: ssl.SSLObject | None) -> dict[str, Any]:
    """What RabbitMQ says of the TLS of a connection; `session`: None if it has none."""
    found: dict[str, Any] = dict.fromkeys(_ABOUT_TLS)
    cipher = None if session is None else session.cipher()
    if session is None or cipher is None:
        return found | {"ssl": False}
    name, protocol, _bits = cipher
    found |= {"ssl": True, "ssl_protocol": (session.version() or protocol).lower()}
    for known in session.context.get_ciphers():
        if known["name"] == name:
            kind, proof = known["kea"].removeprefix("kx-"), known["auth"].removeprefix("auth-")
            found |= {
                "ssl_cipher": known["symmetric"].replace("-", "_"),
                "ssl_hash": "aead" if known["aead"] else known["digest"],
                "ssl_key_exchange": kind if kind in {"any", proof} else f"{kind}_{proof}",
            }
    certificate: dict[str, Any] | None = session.getpeercert()
    if certificate:
        found |= {
            "peer_cert_issuer": _distinguished(certificate, "issuer"),
            "peer_cert_subject": _distinguished(certificate, "subject"),
            "peer_cert_validity": " - ".join(
                _instant(certificate[each]) for each in ("notBefore", "notAfter")
            ),
        }
    return found


def _distinguished(certificate: dict[str, Any], whose: str) -> str:
    return ",".join(map(_written, reversed(certificate.get(whose, ()))))


def _instant(of_openssl: str) -> str:
    at = datetime.fromtimestamp(ssl.cert_time_to_seconds(of_openssl), UTC)
    return at.isoformat().replace("+00:00", "Z")


def _written(parts: tuple[tuple[str, str], ...]) -> str:
    """One part of a distinguished name, which may have several attributes."""
    return "+".join(f"{_SHORT.get(key, key)}={_escaped(value)}" for key, value in parts)


def _escaped(value: str) -> str:
    """A value as RFC 4514 has it; RabbitMQ also escapes each byte that is not printable ASCII."""
    last = len(value) - 1
    written = []
    for at, char in enumerate(value):
        if char in _ESCAPED or (char == " " and at in {0, last}) or (char == "#" and not at):
            written.append("\\" + char)
        elif _FIRST_PRINTABLE <= ord(char) <= _LAST_PRINTABLE:
            written.append(char)
        else:
            written += [f"\\{byte:02X}" for byte in char.encode()]
    return "".join(written)
