"""Addresses to listen on, and which are this machine's own."""

import contextlib
import socket

import pytest

from streaming.listening import host_and_port, is_loopback, listen_locally_too


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


def test_who_listens_on_this_machine_is_found_at_each_address_of_localhost():
    hosts = ["127.0.0.1"]
    with contextlib.suppress(OSError):  # a machine may have no IPv6
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        hosts.append("::1")

    with contextlib.ExitStack() as stack:
        opened = listen_locally_too("test", "127.0.0.1", 0)
        for each in opened:
            stack.enter_context(each)

        assert [each.getsockname()[0] for each in opened] == hosts
        assert len({each.getsockname()[1] for each in opened}) == 1


def test_another_address_is_the_only_one():
    (opened,) = listen_locally_too("test", "127.0.0.2", 0)
    with opened:
        assert opened.getsockname()[0] == "127.0.0.2"


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("192.0.2.1", "192.0.2.1:5"),
        ("::1", "[::1]:5"),
        ("::ffff:192.0.2.1", "192.0.2.1:5"),
        ("::ffff:1", "[::ffff:1]:5"),
        ("mq.example", "mq.example:5"),
    ],
)
def test_an_address_of_ipv4_in_the_form_of_ipv6_is_written_as_usual(host, written):
    assert host_and_port(host, 5) == written
