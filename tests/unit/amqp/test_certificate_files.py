"""Until when certificates in PEM files are valid, against the library `cryptography`."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streaming.amqp.certificate_files import read_tls_file

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(end: datetime, name: str = "localhost") -> str:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(
        subject, subject, KEY.public_key(), x509.random_serial_number(), end - timedelta(1), end
    )
    made = builder.sign(KEY, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize("year", [2027, 2049, 2050, 2100])  # from 2050 on, in another form
@pytest.mark.parametrize("name", ["localhost", "n" * 64])
def test_a_certificate_says_when_it_ends(tmp_path, year, name):
    end = datetime(year, 2, 28, 23, 59, 58, tzinfo=UTC)
    file = tmp_path / "cert.pem"
    file.write_text(certificate(end, name))

    assert read_tls_file(file) == (str(file), (end.timestamp(),))


def test_a_file_has_all_certificates_of_a_chain_and_perhaps_a_key(tmp_path):
    ends = [datetime(year, 1, 1, tzinfo=UTC) for year in (2030, 2060)]
    key = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = tmp_path / "chain.pem"
    file.write_text(key.decode() + "a note\n" + "".join(map(certificate, ends)))

    assert read_tls_file(file).ends_s == tuple(end.timestamp() for end in ends)
