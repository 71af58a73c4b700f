"""No record of a mapped topic stops the job: it becomes a publish or goes to quarantine."""

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from streaming.config import JsonValue, RecordField, RecordHeader, RecordKey, Template, TopicMapping
from streaming.protocol.amqp_properties import property_fault
from streaming.protocol.record_headers import MalformedRecordError
from streaming.topic_mapping import (
    MappedRecord,
    TopicMapper,
    body_document,
)
from topology.declarations import MAX_NAME_BYTES

names = st.sampled_from(["a", "b", "$bytes", "$timestamp", ""])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=300)
    | st.sampled_from(["2026-11-22T14:05:00Z", "0001-01-01", "9999-12-31T23:59:59-23:59", "-5"])
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)
bodies = documents.map(msgspec.json.encode) | st.binary(max_size=20)
values = st.none() | st.binary(max_size=300) | st.text(max_size=20).map(str.encode)
headers = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), values), max_size=4).map(tuple)

paths = st.sampled_from(["$", "$.a", "$.a.b", "$[0]", "$.b[-1].a"])
places = (
    st.builds(RecordKey)
    | st.builds(RecordHeader, st.sampled_from(["a", "b"]))
    | st.builds(JsonValue, paths, otherwise=st.none() | st.just("x"))
    | st.builds(RecordField, st.sampled_from(["topic", "partition", "offset", "timestamp"]))
    | st.builds(Template, st.just("{key}.{json.a}"), otherwise=st.none() | st.just("x"))
    | st.just("{header.a}.{{}}")
)
times = (
    st.builds(JsonValue, paths, unit=st.sampled_from(["s", "ms"]))
    | st.builds(RecordHeader, st.just("a"), unit=st.sampled_from(["s", "ms"]))
    | st.just(RecordField("timestamp"))
)
numbers = st.builds(JsonValue, paths) | st.builds(RecordHeader, st.just("a"))
mappings = st.builds(
    TopicMapping,
    exchange=places,
    routing_key=places,
    vhost=st.just("/") | places,
    message_id=st.none() | places,
    priority=st.none() | numbers,
    timestamp=st.none() | times,
    headers=st.dictionaries(names.filter(bool), places, max_size=2),
)


def outcome(mapper, record):
    try:
        return mapper.publish(record)
    except MalformedRecordError as fault:
        return fault


@given(mappings, st.none() | values, headers, st.none() | bodies, st.integers(-1, 1 << 50))
@example(TopicMapping(exchange="", headers={"a": JsonValue("$")}), None, (), b"9" * 400, 0)
@example(TopicMapping(exchange="", timestamp=JsonValue("$")), None, (), b"1e300", 0)
@example(TopicMapping(exchange=JsonValue("$")), None, (), b'"\\ud800"', 0)
def test_a_record_becomes_a_publish_or_goes_to_quarantine(mapping, key, headers, body, at_ms):
    mapper = TopicMapper("orders", mapping, {"/"}, 1_024)
    record = MappedRecord(key, headers, body_document(body), 0, 1, at_ms)

    mapped = outcome(mapper, record)
    if isinstance(mapped, MalformedRecordError):
        assert "inputs.orders.mapping" in mapped.detail
        return

    assert hash(mapped) == hash(mapper.publish(record))
    assert mapped.vhost == "/"
    texts = (mapped.exchange, mapped.routing_key)
    assert all(len(text.encode()) <= MAX_NAME_BYTES for text in texts)
    assert not any(property_fault(name, value) for name, value in mapped.properties)
