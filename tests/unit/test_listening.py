"""Which addresses are this machine's own."""

import pytest

from streaming.listening import is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.1", False),
        ("127.0.0.1.example", False),
        ("", False),
    ],
)
def test_only_addresses_of_this_machine_are_local(host, expected):
    assert is_loopback(host) is expected
