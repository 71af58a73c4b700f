"""Health checks that fail: what RabbitMQ 4.0.5 says then."""

import time

import pytest

from streaming.amqp.certificate_files import TlsFile, TlsFiles
from streaming.management.app import Management
from streaming.management.formats import NODE
from streaming.management.memory import MemoryFront

DAY_S = 86_400.0
IN_2060_S = 2_840_140_805.0  # 2060-01-01 00:00:05


@pytest.fixture
def management(broker):
    ports = [("amqp", "127.0.0.1", 5672), ("amqp/ssl", "127.0.0.1", 5671)]
    return Management(MemoryFront(broker), lambda: ports)


def test_certificates_that_end_soon_are_told(api, broker):
    soon_s = time.time() + 30 * DAY_S
    files = TlsFiles(TlsFile("/cert.pem", (soon_s,)), TlsFile("/ca.pem", (IN_2060_S,)))
    broker.server.tls_files = files
    path = "health/checks/certificate-expiration"

    assert api.get(f"{path}/29/days") == {"status": "ok"}
    assert api.get(f"{path}/4/weeks") == {"status": "ok"}
    assert api.get(f"{path}/-1/years") == {"status": "ok"}
    for within in ("31/days", "5/weeks", "1/months", "1/YEARS"):
        answer = api.ask("GET", f"{path}/{within}")
        assert answer.status_code == 503
        assert answer.json() == {
            "status": "failed",
            "reason": "Certificates expiring",
            "expired": [
                {
                    "node": NODE,
                    "protocol": "amqp/ssl",
                    "interface": "127.0.0.1",
                    "port": 5671,
                    "certfile": "/cert.pem",
                    "cacertfile": "/ca.pem",
                    "certfile_expires_on": [
                        time.strftime("%Y-%m-%d %-H:%M:%S", time.gmtime(soon_s))
                    ],
                    "cacertfile_expires_on": [],
                }
            ],
        }
    [expired] = api.ask("GET", f"{path}/50/years").json()["expired"]
    assert expired["cacertfile_expires_on"] == ["2060-01-01 0:00:05"]


def test_an_aliveness_test_fails_if_its_queue_keeps_nothing(api):
    policy = {"pattern": "^aliveness-test$", "definition": {"max-length": 0}}
    api.put("policies/%2F/none", policy)

    answer = api.ask("GET", "aliveness-test/%2F")

    assert answer.status_code == 503
    assert answer.json() == {"status": "failed", "reason": "aliveness-test queue is empty"}
