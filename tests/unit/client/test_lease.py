"""The lease of a channel: renewals in time, renewals without an answer, and a lost lease."""

from types import SimpleNamespace
from typing import Any

from streaming.client._transport.lease import Lease


class Broker:
    """A link whose broker answers as told; it is its own command client."""

    def __init__(self) -> None:
        self.timeout_s = 5.0
        self.commands = self
        self.liveness = SimpleNamespace(heard_s=0.0)
        self.sent: list[str] = []
        self.later: list[Any] = []

    def request(self, document: dict[str, Any], _channel: str) -> dict[str, Any]:
        self.sent.append(document["op"])
        return {"number": 1}

    def send(self, document: dict[str, Any], _channel: str) -> None:
        self.sent.append(document["op"])

    def request_async(self, document: dict[str, Any], _channel: str, then: Any) -> None:
        self.sent.append(document["op"])
        self.later.append(then)


def opened() -> tuple[Broker, Lease, list[str], float]:
    broker: Any = Broker()
    reopened: list[str] = []
    lease = Lease(broker, "c", 60, lambda: reopened.append("again"))
    lease.open()
    return broker, lease, reopened, lease._renewed_s  # noqa: SLF001 (the clock it started with)


def test_a_lease_is_renewed_after_a_third():
    broker, lease, _reopened, start_s = opened()
    for second in range(45):
        lease.renew_if_due(start_s + second)
        while broker.later:
            broker.later.pop()({"number": 1})

    assert broker.sent == ["open_channel", "renew", "renew"]


def test_an_unanswered_renewal_is_sent_again_although_the_job_is_heard():
    broker, lease, _reopened, start_s = opened()
    for second in range(60):
        broker.liveness.heard_s = start_s + second
        lease.renew_if_due(start_s + second)

    assert broker.sent.count("renew") > 3


def test_another_channel_number_reopens_the_channel_once():
    broker, lease, reopened, start_s = opened()
    lease.renew_if_due(start_s + 21)

    broker.later.pop(0)({"number": 2})
    lease.check({"number": 2})  # the answer to a sync, before that to the opening
    broker.later.pop(0)({"number": 3})
    lease.check({"number": 3})

    assert broker.sent == ["open_channel", "renew", "close_channel", "open_channel"]
    assert reopened == ["again"]
