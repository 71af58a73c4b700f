"""A real job tells a webhook of a queue without a consumer, and when one has come."""

import hashlib
import hmac
from collections.abc import Iterator

import attrs
import pytest

from streaming.config import show_config
from streaming.config.alerts import AlertSettings
from tests.fixtures.receiver import Receiver
from tests.fixtures.waiting import wait_until

SECRET = b"the secret of a test"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Whom the job tells."""
    server = Receiver()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.long
def test_a_queue_without_a_consumer_is_told_and_that_it_has_one(fronts, receiver):
    secret = fronts.root / "webhook.secret"
    secret.write_bytes(SECRET)
    alerts = AlertSettings(webhook=receiver.url, webhook_secret=str(secret))
    fronts.config = attrs.evolve(fronts.config, alerts=alerts)
    fronts.file.write_text(show_config(fronts.config))
    channel = fronts.connect(fronts.start()).channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)  # with dead letters it could be one that delays
    for number in range(7):
        channel.basic_publish("", "orders", b"%d" % number)
    job = fronts.start_job()

    def has(state: str) -> bool:
        job.check()
        return ("DlxNoConsumer", state) in receiver.states

    wait_until(lambda: has("firing"), job.log_end, 600.0, 0.5)
    told = receiver.told[receiver.states.index(("DlxNoConsumer", "firing"))]
    assert told["labels"] == {"vhost": "/", "queue": "orders"}
    assert (told["value"], told["job"]) == (7, "dlx")
    assert "Queue orders has no consumer, and 7 messages wait" in told["summary"]
    for head, body in zip(receiver.heads, receiver.bodies, strict=True):
        signed = head["X-Dlx-Timestamp"].encode() + b"." + body
        wanted = hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
        assert head["X-Dlx-Signature"] == f"sha256={wanted}"

    channel.basic_consume("orders", lambda *_: None, auto_ack=True)

    wait_until(lambda: has("resolved"), job.log_end, 600.0, 0.5)
    ended = receiver.told[receiver.states.index(("DlxNoConsumer", "resolved"))]
    assert ended["id"].rpartition("-")[0] == told["id"].rpartition("-")[0]
    assert ended["labels"] == told["labels"]
    job.stop()
    assert receiver.states.count(("DlxNoConsumer", "firing")) == 1
