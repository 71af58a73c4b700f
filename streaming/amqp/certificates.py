"""Which user a client's certificate names, as RabbitMQ's `ssl_cert_login_from` has it."""

from typing import Any, Final, Literal

CertificateName = Literal["common_name", "distinguished_name", "subject_alternative_name"]

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

_ESCAPED: Final = frozenset('"+,;<>\\')
_FIRST_PRINTABLE, _LAST_PRINTABLE = 32, 125


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
            name = ",".join(map(_written, reversed(certificate.get("subject", ()))))
        case _:
            names = certificate.get("subjectAltName", ())
            name = next((value for kind, value in names if kind == "DNS"), "")
    return name or None


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
