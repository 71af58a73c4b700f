"""Files of certificates: until when what is in them is valid."""

import re
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)
_VERSION_TAG: Final = 0xA0
_UTC_TIME_TAG: Final = 0x17
_LONG: Final = 0x80
"""From here on, the first byte of a length says how many more there are."""


class TlsFile(NamedTuple):
    """A file that a server uses for TLS.

    Attributes:
        path: as it was given.
        ends_s: until when each certificate in it is valid, epoch seconds.
    """

    path: str
    ends_s: tuple[float, ...]


class TlsFiles(NamedTuple):
    """What a server uses for TLS since it was started; later changes of the files do not count.

    Attributes:
        ca: those who may vouch for clients; None: clients need no certificate.
    """

    certificate: TlsFile
    ca: TlsFile | None


def read_tls_file(path: Path) -> TlsFile:
    """Read a PEM file that OpenSSL could read."""
    found = _CERTIFICATE.findall(path.read_text("ascii", "replace"))
    return TlsFile(str(path), tuple(_end_s(ssl.PEM_cert_to_DER_cert(one)) for one in found))


def _end_s(der: bytes) -> float:
    """Until when a certificate is valid: `notAfter` in its `Validity`, as X.509 has it."""
    _, start, _ = _element(der, 0)
    _, at, _ = _element(der, start)
    tag, _, end = _element(der, at)
    before = 4 if tag == _VERSION_TAG else 3  # perhaps a version; serial, algorithm, issuer
    for _ in range(before):
        _, _, end = _element(der, at)
        at = end
    _, at, _ = _element(der, at)
    _, _, at = _element(der, at)
    tag, start, end = _element(der, at)
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME_TAG else "%Y%m%d%H%M%SZ"
    return datetime.strptime(der[start:end].decode("ascii"), form).replace(tzinfo=UTC).timestamp()


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """The tag of an element of DER, and where its content begins and ends."""
    tag, size, at = der[at], der[at + 1], at + 2
    if size >= _LONG:
        more = size - _LONG
        size, at = int.from_bytes(der[at : at + more], "big"), at + more
    return tag, at, at + size
