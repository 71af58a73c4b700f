"""Kafka headers of a batch of records, as columns."""

import pyarrow as pa

from streaming.pipeline.intake.header_columns import with_header_columns

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def columns(headers, *names, is_mapped=False):
    batch = pa.record_batch({"headers": pa.array(headers, HEADERS)})
    found = with_header_columns(batch, is_mapped=is_mapped)
    return [found[name].to_pylist() for name in names]


def test_headers_of_dlx_are_columns_with_the_last_of_repeated_values():
    headers = [
        [("dlx-exchange", b"a"), ("dlx-routing-key", b"k")],
        None,
        [("dlx-exchange", b"a"), ("dlx-exchange", b"b")],
        [],
        [("dlx-exchange", b"a"), ("dlx-exchange", None)],
    ]

    assert columns(headers, "dlx_exchange", "dlx_routing_key", "dlx_op", "foreign") == [
        [b"a", None, b"b", None, None],
        [b"k", None, None, None, None],
        [None] * 5,
        [None] * 5,
    ]


def test_records_with_one_header_each_are_read():
    assert columns([[("dlx-op", b"get")], [("dlx-op", b"ack")]], "dlx_op") == [[b"get", b"ack"]]


def test_a_header_repeated_in_one_record_is_not_that_of_another():
    twice = [[("dlx-op", b"get"), ("dlx-op", b"ack")], None]

    assert columns(twice, "dlx_op") == [[b"ack", None]]


def test_the_header_of_a_command_needs_no_value():
    headers = [[("dlx-op", None)], [("dlx-vhost", None)], [("dlx-op", b"get"), ("dlx-op", None)]]

    assert columns(headers, "dlx_op", "dlx_vhost") == [[b"", None, b""], [None] * 3]
    assert columns([[("dlx-op", None)]], "dlx_op") == [[b""]]


def test_foreign_headers_stay_in_order_with_repeats():
    headers = [
        [("trace", b"1"), ("dlx-op", b""), ("trace", None)],
        [("dlx-vhost", b"/")],
        None,
        [("ünlike", b"\xff")],
    ]

    assert columns(headers, "foreign", "dlx_op") == [
        [
            [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}],
            None,
            None,
            [{"key": "ünlike", "value": b"\xff"}],
        ],
        [b"", None, None, None],
    ]


def test_all_headers_of_a_mapped_topic_are_foreign():
    headers = [[("dlx-op", b"get")], None]

    assert columns(headers, "foreign", "dlx_op", is_mapped=True) == [
        [[{"key": "dlx-op", "value": b"get"}], None],
        [None, None],
    ]


def test_the_size_is_in_bytes_of_keys_and_values():
    headers = [[("é", b"12"), ("a", None)], None, [("dlx-op", b"x" * 70_000)]]

    assert columns(headers, "header_bytes") == [[5, 0, 70_006]]


def test_a_slice_of_a_batch_has_its_own_rows():
    whole = pa.record_batch(
        {"headers": pa.array([[("dlx-op", b"a")], [("x", b"y")], [("dlx-op", b"c")]], HEADERS)}
    )

    found = with_header_columns(whole.slice(1), is_mapped=False)

    assert found["dlx_op"].to_pylist() == [None, b"c"]
    assert found["foreign"].to_pylist() == [[{"key": "x", "value": b"y"}], None]
