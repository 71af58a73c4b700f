"""Foreign records: where vhost, exchange and routing key come from."""

from streaming.config.inputs import RecordHeader, RecordKey, TopicMapping
from streaming.pipeline.intake.mapping import mapped_headers
from streaming.protocol.record_headers import MalformedRecordError


def test_literals_keys_and_headers_map_a_record_that_keeps_its_headers():
    mapping = TopicMapping(exchange="orders", routing_key=RecordHeader("type"), vhost=RecordKey())
    foreign = (("type", b"old"), ("type", b"new"), ("trace", b"\xff"))

    assert mapped_headers(mapping, b"shop", foreign) == (
        *(None, b"shop", b"orders", b"new", None, None, None, None),
        foreign,
    )


def test_a_missing_value_is_replaced_or_quarantines_the_record():
    replaced = TopicMapping(exchange="orders", routing_key=RecordKey(otherwise="none"))
    missing = TopicMapping(exchange="orders", routing_key=RecordHeader("type"))

    *_values, error = mapped_headers(missing, None, ())

    assert mapped_headers(replaced, None, ())[3] == b"none"
    assert isinstance(error, MalformedRecordError)
    assert error.cause == "unmapped"
