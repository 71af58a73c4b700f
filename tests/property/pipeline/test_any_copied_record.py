"""Any record of an input is copied into a log or left out, and every fold takes it alike (D11)."""

import json

import attrs
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from streaming.config.inputs import InputSettings
from streaming.protocol.copied_records import Source
from streaming.sequencer.input_records import InputRecord, InputRecords
from streaming.sequencer.log_vhost import LogVhost, Role
from tests.builders import START_MS
from tests.log_port import LogPort
from tests.property.pipeline.records import headers_of, names, records
from tests.property.pipeline.test_mapping_model import bodies, headers, mappings, values
from tests.property.topology.amqp_values import json_values, texts

tables = st.dictionaries(texts, json_values(), max_size=3)

TO_HEADERS = {"exchange": "amq.headers", "routing_key": "a", "vhost": "/", "message_id": None}
"""Of a mapping: else hardly any record has all that a mapping needs."""

declarations = st.one_of(
    st.tuples(
        st.just("declare_queue"),
        st.fixed_dictionaries(
            {"queue": st.fixed_dictionaries({"name": names}, optional={"arguments": tables})}
        ),
    ),
    st.tuples(
        st.just("bind"),
        st.fixed_dictionaries(
            {
                "binding": st.fixed_dictionaries(
                    {"source": names, "destination": names}, optional={"arguments": tables}
                )
            }
        ),
    ),
).map(lambda both: {"dlx-op": both[0].encode(), "value": json.dumps(both[1]).encode()})

COMMANDS = InputSettings(topic="commands", source="commands")


def a_leader(port: LogPort) -> LogVhost:
    vhost = port.open()
    vhost.acknowledged(port.write())
    return vhost


def copy(found: list[InputRecord], inputs: list[InputSettings]) -> None:
    """Copy records as a front does, and fold the log as others do."""
    port = LogPort()
    vhost = a_leader(port)
    reader = InputRecords("/", inputs, ["/"], 10_000, 10_000, 100_000)
    for record in found:
        entry = reader.entry(record)
        event("copied" if entry is not None else "left out")
        if entry is not None:
            vhost.submit(entry)
            port.acknowledge(vhost)
    follower = port.open(leads=False)

    assert vhost.role is Role.LEADING
    assert follower.fold.in_short() == vhost.fold.in_short()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(records.map(lambda rows: rows[0]), declarations), min_size=1, max_size=9))
def test_any_record_of_the_wire_format_is_copied_or_left_out(rows):
    found = [
        InputRecord(
            Source("commands", 0, offset, "id"),
            START_MS,
            row.get("key"),
            row["value"],
            tuple(headers_of(row) or ()),
        )
        for offset, row in enumerate(rows)
    ]

    copy(found, [COMMANDS])


@given(
    mappings,
    st.lists(st.tuples(st.none() | values, headers, bodies, st.integers(-1, 1 << 50)), min_size=1),
)
def test_any_record_of_a_mapped_topic_is_copied_or_left_out(mapping, rows):
    found = [
        InputRecord(Source("orders", 0, offset, "id"), at_ms, key, body, given_headers)
        for offset, (key, given_headers, body, at_ms) in enumerate(rows)
    ]

    mapping = attrs.evolve(mapping, **TO_HEADERS)
    copy(found, [InputSettings(topic="orders", mapping=mapping)])
