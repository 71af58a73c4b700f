"""`dlx amqp --memory`: the command, as a process."""

import json
import re
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pika
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from tests.fixtures.child import Child
from tests.fixtures.waiting import WAIT_S

DLX = (sys.executable, "-P", "-m", "streaming.cli", "amqp")


def run(*arguments):
    return subprocess.run((*DLX, *arguments), capture_output=True, text=True, check=False)


def test_clients_connect_until_the_command_is_stopped(tmp_path):
    file = tmp_path / "definitions.json"
    stream = {"name": "s", "vhost": "/", "arguments": {"x-queue-type": "stream"}}
    file.write_text(json.dumps({"queues": [{"name": "q", "vhost": "/"}, stream]}))
    options = ("--port", "0", "--web", "0", "--clock", "manual", "--definitions", str(file))
    with Child((*DLX, "--memory", *options), stderr=subprocess.PIPE) as process:
        url = process.line().removeprefix("listening on ")
        pages = process.line().removeprefix("pages at ")

        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            declared = connection.channel().queue_declare("q", passive=True)
            address = urlsplit(pages)
            web = HTTPConnection(str(address.hostname), address.port)
            web.request("GET", "/api/dlx/clock")
            clock = json.load(web.getresponse())
            web.close()
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate()

    assert declared.method.message_count == 0
    assert clock["manual"] is True
    assert (process.returncode, rest) == (0, "stopped\n")
    assert "skipped" in errors
    assert "Traceback" not in errors


def test_a_low_limit_of_open_files_limits_no_clients():
    with (
        Child(
            ("sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh", *DLX, "--memory", "--port", "0")
        ) as process,
        ExitStack() as clients,
    ):
        port = int(process.line().rpartition(":")[2])
        for _ in range(100):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.settimeout(WAIT_S)
            client.sendall(b"AMQP\0\0\x09\x01")
            assert client.recv(1) == b"\x01"
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0


def test_metrics_have_a_port_where_they_are_asked_for():
    options = ("--port", "0", "--metrics", "0", "--management", "0")
    with Child((*DLX, "--memory", *options)) as process:
        said = [process.line() for _ in range(3)]
        address = urlsplit(said[2].removeprefix("metrics at "))
        with pika.BlockingConnection(
            pika.URLParameters(said[0].removeprefix("listening on "))
        ) as connection:
            connection.channel().queue_declare("q")
            found = []
            for path in ("/metrics", "/readyz"):
                web = HTTPConnection(str(address.hostname), address.port)
                web.request("GET", path)
                answer = web.getresponse()
                found.append((answer.status, answer.read().decode()))
                web.close()
        process.send_signal(signal.SIGTERM)
        process.communicate()

    assert [line.partition(" at ")[0] for line in said[1:]] == ["management", "metrics"]
    assert "rabbitmq_connections 1.0\nrabbitmq_channels" in re.sub("# .*\n", "", found[0][1])
    assert "rabbitmq_queues_created_total 1.0" in found[0][1]
    assert found[1] == (200, "ok\n")
    assert process.returncode == 0


def test_a_port_for_metrics_that_is_in_use_is_refused_if_it_was_asked_for():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("--memory", "--port", "0", "--metrics", str(port))

    assert done.returncode == 2
    assert f"dlx amqp: no metrics: --metrics: cannot listen on 127.0.0.1:{port}" in done.stderr


def test_tls_has_a_port_of_its_own_beside_plain_amqp(tmp_path):
    authority = trustme.CA()
    pair = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    pair.cert_chain_pems[0].write_to_path(certificate)
    pair.private_key_pem.write_to_path(key)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    options = ("--port", "0", "--tls", str(certificate), str(key), "--tls-port", "0")
    with Child((*DLX, "--memory", *options)) as process:
        plain, secure = (urlsplit(process.line().removeprefix("listening on ")) for _ in range(2))
        for port, tls in (
            (plain.port, None),
            (secure.port, pika.SSLOptions(trusting, "127.0.0.1")),
        ):
            parameters = pika.ConnectionParameters("127.0.0.1", port, ssl_options=tls)
            with pika.BlockingConnection(parameters) as connection:
                assert connection.is_open
        process.send_signal(signal.SIGTERM)
        process.communicate()

    assert (plain.scheme, secure.scheme, process.returncode) == ("amqp", "amqps", 0)


def test_the_log_says_why_a_client_of_tls_was_refused(tmp_path):
    authority = trustme.CA()
    pair = authority.issue_cert("127.0.0.1")
    both, ca = tmp_path / "both.pem", tmp_path / "ca.pem"
    pair.private_key_and_cert_chain_pem.write_to_path(both)
    authority.cert_pem.write_to_path(ca)
    without_certificate = ssl.create_default_context()
    authority.configure_trust(without_certificate)
    options = ("--port", "0", "--tls", str(both), str(both), "--tls-ca", str(ca))
    with Child((*DLX, "--memory", *options), stderr=subprocess.PIPE) as process:
        address = urlsplit(process.line().removeprefix("listening on "))
        with (
            suppress(OSError),  # an alert, or an end
            socket.create_connection((address.hostname, address.port)) as plain,
            without_certificate.wrap_socket(plain, server_hostname="127.0.0.1") as client,
        ):
            client.recv(1)
        process.send_signal(signal.SIGTERM)
        _output, log = process.communicate()

    assert "the TLS handshake of a client failed: [SSL: PEER_DID_NOT_RETURN_A_CERTIFICATE]" in log


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--memory", "--standby"), "--standby"),
        (("--memory", "--config", sys.executable), "--config: cannot be used with --memory"),
        (("--config", "no.toml"), "no.toml"),
        (("--memory", "--tls-ca", "ca.pem"), "--tls"),
        (("--memory", "--tls-port", "5671"), "needs --tls"),
        (("--memory", "--definitions", sys.executable), "is not JSON"),
        (("--memory", "--tls", "no.pem", "no.key"), "no.pem"),
    ],
)
def test_what_cannot_be_started_is_one_line_that_names_the_option(arguments, text):
    ended = run(*arguments)

    assert ended.returncode == 2
    assert text in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_certificate_key_or_authority_that_cannot_be_used_is_named(tmp_path):
    pair, other = trustme.CA().issue_cert("localhost"), trustme.CA().issue_cert("localhost")
    certificate, key, foreign, encrypted, text = (
        tmp_path / name for name in ("cert.pem", "key.pem", "foreign.pem", "encrypted.pem", "a.txt")
    )
    pair.cert_chain_pems[0].write_to_path(certificate)
    pair.private_key_pem.write_to_path(key)
    other.private_key_pem.write_to_path(foreign)
    text.write_text("text")
    encrypted.write_bytes(
        serialization.load_pem_private_key(pair.private_key_pem.bytes(), None).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    for *files, option, said in (
        (certificate, tmp_path / "no.key", "--tls:", "no.key: No such file"),
        (certificate, foreign, "--tls:", "KEY_VALUES_MISMATCH"),
        (certificate, encrypted, "--tls:", "the key is encrypted"),
        (certificate, key, text, "--tls-ca:", "a.txt: not usable PEM files"),
        (certificate, key, tmp_path / "no.pem", "--tls-ca:", "no.pem: No such file"),
    ):
        authority = ("--tls-ca", str(files.pop())) if len(files) == 3 else ()

        ended = run("--memory", "--tls", *map(str, files), *authority)

        assert ended.returncode == 2
        assert f"invalid value for {option}" in ended.stderr
        assert said in ended.stderr


@pytest.mark.parametrize("options", [("--port",), ("--port", "0", "--tls-port")], ids=" ".join)
def test_a_port_in_use_is_named(options, tmp_path):
    if "--tls-port" in options:
        pair = trustme.CA().issue_cert("localhost")
        pair.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
        both = str(tmp_path / "both.pem")
        options = ("--tls", both, both, *options)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        ended = run("--memory", *options, str(port))

    assert ended.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in ended.stderr
