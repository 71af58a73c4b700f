"""A channel with a broker that answers at once."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.client import Channel, ChannelClosedError, ClientError, NotFoundError
from streaming.client._transport.dispatch import Dispatch
from streaming.client._wire import inbound


class Broker:
    """A link whose broker answers every command with the number of the channel."""

    def __init__(self) -> None:
        names = itertools.count()
        self.commands = self
        self.timeout_s = 5.0
        self.sent: list[tuple[str, Any]] = []
        self.dispatch = Dispatch(self, SimpleNamespace(), SimpleNamespace(end=lambda: None))  # type: ignore[arg-type]
        self.new_name = lambda prefix: f"{prefix}-{next(names)}"

    def check_open(self) -> None: ...

    def request(self, document: dict[str, Any], _channel: str, **_more: Any) -> dict[str, Any]:
        self.sent.append((document["op"], document.get("as")))
        return {"number": 1}

    def send(self, document: dict[str, Any], _channel: str, *_more: Any) -> None:
        self.sent.append((document["op"], document.get("refs")))

    def complete(self, _answer: dict[str, Any]) -> None: ...

    def says(self, kind: str, value: str, **headers: str) -> None:
        named = {"dlx-kind": kind, "dlx-channel": "c", **headers}
        pairs = [(name, text.encode()) for name, text in named.items()]
        self.dispatch.receive(inbound(value.encode(), pairs))


@pytest.fixture
def broker() -> Any:
    return Broker()


@pytest.fixture
def channel(broker):
    return Channel(broker, "c", 60_000)


def delivered(broker, consumer):
    ref = {"dlx-ref": f"{consumer.tag}/0", "dlx-delivery-id": "1.0.0"}
    broker.says("delivery", "body", **ref)


def test_cancel_takes_a_consumer_or_its_tag_and_nothing_else(broker, channel):
    consumer = channel.consume("q")
    for wrong in (None, 7):
        with pytest.raises(ClientError, match=f"a consumer or its tag, not {wrong}"):
            channel.cancel(wrong)

    channel.cancel(consumer.tag)

    assert broker.sent[-1] == ("cancel", consumer.tag)
    assert list(consumer) == []


def test_a_cancelled_consumer_requeues_what_it_has_not_handed_out(broker, channel):
    consumer = channel.consume("q")
    delivered(broker, consumer)

    consumer.cancel()

    assert broker.sent[-1] == ("nack", ["1.0.0"])
    assert consumer.next(0) is None


def test_a_name_is_used_once_per_connection(broker, channel):
    with pytest.raises(ClientError, match="'c'"):
        Channel(broker, "c", 60_000)
    channel.close()

    assert Channel(broker, "c", 60_000).is_open


def test_a_refusal_closes_the_channel_and_its_consumers_raise_it(broker, channel):
    consumer = channel.consume("q")

    broker.says("answer", '{"op":"depth","error":{"code":404,"text":"NOT_FOUND - gone"}}')

    with pytest.raises(NotFoundError):
        consumer.next(0)
    with pytest.raises(ChannelClosedError, match="404 NOT_FOUND"):
        channel.ack("1.0.0")
