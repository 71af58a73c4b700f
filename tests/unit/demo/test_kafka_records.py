"""The records that the demo's clients write are what the job reads."""

from streaming.broker.commands import Ack
from streaming.broker.message import CONFIRM
from streaming.demo.kafka_records import Deduplicator, OutboundRecord, command, publish
from streaming.demo.order_process import order
from streaming.protocol.record_headers import INBOUND, command_record, publish_headers


def test_a_publish_is_read_as_it_was_sent():
    message = order(1)

    record = publish(message, "/", "shop")
    headers = dict(record.headers)
    read = publish_headers([headers.get(name) for name in INBOUND])

    assert record.value == message.body
    assert (read.vhost, read.flags, read.channel) == ("/", CONFIRM, "shop")
    assert read.publication.exchange == "orders"
    assert read.publication.routing_key == message.routing_key
    assert read.properties == message.properties
    assert read.headers == message.headers


def test_a_command_is_read_as_it_was_sent():
    record = command({"op": "ack", "refs": ["1.2.3"], "channel": "c"}, "/")
    headers = dict(record.headers)

    read = command_record(headers["dlx-op"], headers["dlx-vhost"], record.value)

    assert read.command == Ack(refs=("1.2.3",), channel="c")


def outbound(seq, **more):
    headers = {"dlx-kind": b"delivery", "dlx-vhost": b"/", "dlx-lane": b"0", "dlx-channel": b"c"}
    headers |= {"dlx-seq": str(seq).encode(), **more}
    return b"body", list(headers.items())


def test_records_repeated_by_a_replayed_batch_are_dropped():
    deduplicator = Deduplicator()

    seen = [deduplicator.read(*outbound(seq)) is not None for seq in (0, 1, 0, 1, 2)]

    assert seen == [True, True, False, False, True]


def test_lanes_have_sequences_of_their_own():
    deduplicator = Deduplicator()
    deduplicator.read(*outbound(5))

    other = deduplicator.read(*outbound(0, **{"dlx-lane": b"1"}))

    assert other is not None


def test_a_delivery_gives_its_id_and_its_headers():
    value, headers = outbound(
        0, **{"dlx-delivery-id": b"1.2.3", "dlx-headers": b'{"x-death":[{"count":1}]}'}
    )

    record = Deduplicator().read(value, headers)

    assert record == OutboundRecord("delivery", "c", b"body", dict(headers))
    assert record.delivery_id == "1.2.3"
    assert record.amqp_headers == {"x-death": [{"count": 1}]}


def test_a_delivery_without_headers_has_an_empty_table():
    record = Deduplicator().read(*outbound(0))

    assert record is not None
    assert record.amqp_headers == {}
