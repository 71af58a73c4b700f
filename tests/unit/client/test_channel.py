"""A channel with a broker that answers at once."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.client import Channel, ChannelClosedError, ClientError, NoAnswerError, NotFoundError
from streaming.client._transport.dispatch import Dispatch
from streaming.client._wire import inbound


class Broker:
    """A link whose broker answers every command with the number of the channel."""

    def __init__(self) -> None:
        names = itertools.count()
        self.commands = self
        self.timeout_s = 5.0
        self.address = SimpleNamespace(lanes=1)
        self.sent: list[tuple[str, Any]] = []
        self.silent_ops: set[str] = set()
        self.number = 1
        self.dispatch = Dispatch(self, SimpleNamespace(), SimpleNamespace(end=lambda: None))  # type: ignore[arg-type]
        self.new_name = lambda prefix: f"{prefix}-{next(names)}"

    def check_open(self) -> None: ...

    def request(self, document: dict[str, Any], _channel: str, **_more: Any) -> dict[str, Any]:
        self.sent.append((document["op"], document.get("as")))
        if document["op"] in self.silent_ops:
            raise NoAnswerError(document["op"])
        return {"number": self.number}

    def send(self, document: dict[str, Any], _channel: str, *_more: Any) -> None:
        self.sent.append((document["op"], document.get("refs")))

    def request_async(self, document: dict[str, Any], _channel: str, _then: Any) -> None:
        self.sent.append((document["op"], None))

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


def delivered(broker, tag):
    ref = {"dlx-ref": f"{tag}/0", "dlx-delivery-id": "1.0.0"}
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
    delivered(broker, consumer.tag)

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


def test_a_consumer_without_an_answer_is_cancelled_and_its_deliveries_requeued(broker, channel):
    broker.silent_ops = {"consume"}
    with pytest.raises(NoAnswerError):
        channel.consume("q", consumer_tag="late")
    assert broker.sent[-2:] == [("consume", "late"), ("cancel", None)]

    delivered(broker, "late")

    assert broker.sent[-1] == ("nack", ["1.0.0"])


def test_a_get_without_an_answer_requeues_what_it_may_deliver(broker, channel):
    broker.silent_ops = {"get"}
    with pytest.raises(NoAnswerError):
        channel.get_many("q", 2)
    label = broker.sent[-2][1]

    assert broker.sent[-1] == ("nack", [f"{label}/0", f"{label}/1"])


def test_callbacks_are_called_until_the_queue_is_deleted(broker, channel):
    bodies: list[bytes] = []
    consumer = channel.consume("q", lambda delivery: bodies.append(delivery.body))
    delivered(broker, consumer.tag)
    channel.start_consuming(timeout_s=0)

    broker.says("cancel", f'{{"consumer":"{consumer.tag}"}}')
    channel.start_consuming()

    assert bodies == [b"body"]


def test_a_reopened_channel_restarts_its_consumers_and_drops_what_nobody_has_seen(broker, channel):
    consumer = channel.consume("q")
    delivered(broker, consumer.tag)
    broker.number = 2

    channel.sync()

    assert channel.reopen_count == 1
    assert [op for op, _ in broker.sent[-3:]] == ["close_channel", "open_channel", "consume"]
    assert consumer.next(0) is None


def test_a_get_asks_the_other_lanes_for_what_is_missing(broker, channel):
    asked = []

    def answer(document: dict[str, Any], _channel: str, **_more: Any) -> dict[str, Any]:
        asked.append((document["count"], document.get("lane")))
        lane = document.get("lane", 2)
        if lane in {2, 0}:
            name = f"{document['as']}/0"
            ids = {"dlx-ref": f"{name}@{lane}", "dlx-delivery-id": f"1.0.0@{lane}"}
            broker.says("delivery", "body", **ids)
        return {"delivered": 1, "lane": lane, "lanes": 4}

    broker.request = answer

    deliveries = channel.get_many("q", 2)

    assert [one.delivery_id for one in deliveries] == ["1.0.0@2", "1.0.0@0"]
    assert asked == [(2, None), (1, 3), (1, 0)]


def test_multiple_names_the_last_earlier_delivery_of_each_lane(broker, channel):
    consumer = channel.consume("q")
    for name in ("1.1.0", "1.1.0@1", "1.1.1", "1.1.0@2", "1.1.1@1", "1.1.2"):
        ids = {"dlx-ref": f"{consumer.tag}/0", "dlx-delivery-id": name}
        broker.says("delivery", "body", **ids)

    channel.ack("1.1.1")
    channel.ack("1.1.0@2", multiple=True)
    channel.ack("1.1.2", multiple=True)
    channel.ack("1.1.2", multiple=True)

    sent = [refs for op, refs in broker.sent if op == "ack"]
    assert sent == [["1.1.1"], ["1.1.0@2", "1.1.0", "1.1.0@1"], ["1.1.2", "1.1.1@1"], ["1.1.2"]]


def test_after_recover_nothing_earlier_is_named(broker, channel):
    consumer = channel.consume("q")
    for name in ("1.1.0@1", "1.1.0@2"):
        ids = {"dlx-ref": f"{consumer.tag}/0", "dlx-delivery-id": name}
        broker.says("delivery", "body", **ids)
    broker.request = lambda *_command, **_more: {"requeued": 2}

    assert channel.recover() == 2
    channel.ack("1.1.0@2", multiple=True)

    assert broker.sent[-1] == ("ack", ["1.1.0@2"])
