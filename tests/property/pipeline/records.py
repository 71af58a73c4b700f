"""Kafka records of every kind: valid, almost valid, and random bytes."""

import json

import pyarrow as pa
from hypothesis import strategies as st

from streaming.protocol.amqp_properties import PROPERTIES
from streaming.protocol.command_json import KINDS
from streaming.protocol.record_headers import INBOUND
from tests.builders import START_MS
from tests.property.topology.amqp_values import json_values, texts

NAMES = ("", "q", "dead", "x", "dlx", "amq.direct", "größe")
REFS = ("c/0", "c/1", "1.1.0", "1.1", "9" * 30 + ".1.1", "-1.0.0", "1.x.1", "c/-1", "c/x", "/", ".")
names = st.one_of(st.sampled_from(NAMES), texts)
odd_json = st.sampled_from(
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b'"text"',
        b"\xff\xfe",
        b'{"a": 1e999}',
        b'{"a": -0.0}',
        b'{"a": NaN}',
        b'{"a": 123456789012345678901234567890}',
        b'{"a": 18446744073709551615}',
        b'{"a": -9223372036854775809}',
        b'{"a": "\\ud800"}',
        b'{"\\udfff": "a"}',
        b'{"a": "\\u0000"}',
        b'{"a": 1, "a": 2}',
        b'{"a": {"$bytes": "!"}}',
        b'{"a": {"$timestamp": 1e3}}',
        b'{"a": {"$timestamp": 99999999999999999999}}',
        b'{"a": {"$decimal": "1e999999999"}}',
        b'{"a": {"$decimal": "NaN"}}',
        b'{"a": [' * 70 + b"]}" * 70,
        b"[" * 100_000,
        b'{"x-death": 7}',
        b'{"x-death": [{"count": "many", "reason": 1}, null, [], {}]}',
        b'{"x-death": [{"queue": "q", "reason": "expired", "count": -1, "time": "now"}]}',
        b'{"CC": "q", "BCC": [1, null, "dead"]}',
        b'{"x-delivery-count": "x", "x-first-death-reason": {}}',
    ]
)


def encoded(documents):
    """JSON documents as bytes; floats that JSON does not know are written as Python does."""
    return documents.map(lambda document: json.dumps(document).encode())


property_values = st.one_of(
    st.integers(-1, 300), texts, st.sampled_from(["0", "5", "-1", "9" * 30])
)
properties = st.one_of(
    encoded(
        st.dictionaries(
            st.sampled_from(PROPERTIES),
            property_values,
            max_size=4,
        )
    ),
    encoded(json_values()),
    odd_json,
)
tables = st.one_of(encoded(st.dictionaries(texts, json_values(), max_size=4)), odd_json)
short = st.one_of(names.map(str.encode), st.binary(max_size=4), st.just(b"x" * 256))
flags = st.one_of(
    st.sampled_from([b"mandatory", b"immediate , confirm", b",", b"mandatroy"]),
    st.binary(max_size=4),
)
ops = st.sampled_from([*KINDS, "publish", "gett", ""])

members = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.one_of(
            names, st.fixed_dictionaries({"name": names}, optional={"arguments": json_values()})
        ),
        "exchange": st.one_of(
            names,
            st.fixed_dictionaries({"name": names, "type": st.sampled_from(["fanout", "odd"])}),
        ),
        "binding": st.fixed_dictionaries(
            {"source": names, "destination": names}, optional={"arguments": json_values()}
        ),
        "policy": st.fixed_dictionaries(
            {"name": names, "pattern": st.sampled_from([".*", "(", "(?!x)"])},
            optional={"definition": json_values()},
        ),
        "definitions": json_values(),
        "name": names,
        "user": names,
        "configure": st.sampled_from(["", ".*", "("]),
        "as": names,
        "channel": names,
        "refs": st.lists(st.one_of(names, st.sampled_from(REFS)), max_size=3),
        "count": st.sampled_from([0, 1, 3, -1, 10**30, 1.5]),
        "prefetch": st.sampled_from([0, 1, 65535, 65536]),
        "lease_ms": st.sampled_from([0, 1, 60_000, 10**20]),
        "multiple": st.booleans(),
        "requeue": st.booleans(),
        "auto_ack": st.booleans(),
        "reply_id": names,
    },
)
commands = st.one_of(
    st.tuples(ops, members).map(lambda both: json.dumps({"op": both[0], **both[1]}).encode()),
    encoded(members),
    encoded(json_values()),
    odd_json,
)

foreign = st.lists(
    st.tuples(
        st.sampled_from(["traceparent", "ce_id", "ce_id", "", "größe"]),
        st.one_of(st.none(), st.binary(max_size=4)),
    ),
    min_size=1,
    max_size=3,
)


def maybe(values):
    return st.one_of(st.none(), values)


publishes = st.fixed_dictionaries(
    {
        "value": st.one_of(st.none(), st.binary(max_size=20)),
        "key": maybe(st.binary(max_size=4)),
        "foreign": maybe(foreign),
        "dlx-vhost": maybe(st.one_of(st.just(b"/"), short)),
        "dlx-exchange": maybe(short),
        "dlx-routing-key": maybe(short),
        "dlx-properties": maybe(properties),
        "dlx-headers": maybe(tables),
        "dlx-flags": maybe(flags),
        "dlx-channel": maybe(short),
    }
)
command_records = st.fixed_dictionaries(
    {
        "value": maybe(commands),
        "dlx-op": st.one_of(ops.map(str.encode), st.binary(max_size=4)),
        "dlx-vhost": maybe(st.one_of(st.just(b"/"), short)),
    }
)
records = st.lists(st.one_of(publishes, command_records), min_size=1, max_size=12)

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


def headers_of(row):
    """All headers of a record, foreign ones last; a header of dlx may be repeated."""
    ours = [(name, row[name]) for name in INBOUND if row.get(name) is not None]
    return [*ours[:1], *ours, *(row.get("foreign") or [])] or None


def arrow_batch(rows, topic, first_offset):
    """The records as the input columns of the first stage."""
    count = len(rows)
    headers = [
        None if one is None else [{"key": key, "value": value} for key, value in one]
        for one in map(headers_of, rows)
    ]
    columns = {
        "topic": pa.array([topic] * count, pa.string()),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(first_offset, first_offset + count), pa.int64()),
        "at_ms": pa.array([START_MS + 100 * number for number in range(count)], pa.int64()),
        "key": pa.array([row.get("key") for row in rows], pa.binary()),
        "value": pa.array([row["value"] for row in rows], pa.binary()),
        "headers": pa.array(headers, pa.list_(HEADER)),
    }
    return pa.record_batch(list(columns.values()), names=list(columns))
