import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic

from streaming.amqp.errors import AmqpError
from streaming.amqp.properties import (
    HEADERS,
    REPLY_TO,
    read_properties,
    see,
    with_changes,
    with_reply_to,
    write_properties,
)

TEXT = st.text(max_size=20).filter(bool)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "content_type": TEXT,
        "headers": st.dictionaries(TEXT, TEXT | st.integers(0, 9), min_size=1, max_size=3),
        "delivery_mode": st.integers(1, 2),
        "priority": st.integers(1, 255),
        "correlation_id": TEXT,
        "reply_to": TEXT,
        "expiration": TEXT,
        "message_id": TEXT,
        "type": TEXT,
        "user_id": TEXT,
        "app_id": TEXT,
    },
)


@given(PROPERTIES)
def test_properties_are_written_as_another_library_writes_them(values):
    theirs = {{"type": "message_type"}.get(name, name): value for name, value in values.items()}
    data = write_properties(values)

    assert read_properties(data) == values
    if "headers" not in values:
        assert data[2:] == Basic.Properties(**theirs).marshal()[2:]


@given(PROPERTIES)
def test_what_the_broker_looks_at_is_seen(values):
    data = write_properties(values)
    seen = see(data)

    assert (seen.expiration, seen.priority) == (values.get("expiration"), values.get("priority"))
    assert (seen.reply_to, seen.user_id) == (values.get("reply_to"), values.get("user_id"))
    assert seen.headers == values.get("headers")


@given(PROPERTIES, st.none() | st.dictionaries(TEXT, TEXT, max_size=2), st.none() | TEXT)
def test_a_delivery_may_have_other_headers_and_another_expiration(values, headers, expiration):
    data = write_properties(values)

    changed = read_properties(with_changes(data, headers, values.get("headers"), expiration))

    expected = {**values, "headers": headers, "expiration": expiration}
    assert changed == {name: value for name, value in expected.items() if value is not None}


@given(PROPERTIES, st.data())
def test_properties_that_are_cut_are_refused(values, data):
    whole = write_properties(values)
    cut = data.draw(st.integers(2, len(whole)))

    if cut < len(whole):
        with pytest.raises(AmqpError, match=r"50[12]"):
            see(whole[:cut])


@pytest.mark.parametrize("headers", [b"", b"\1aI\0\0\0\7", b"\1\xffs\0\7\1af\0\0\0\0\1ab\1"])
def test_the_reply_address_is_replaced_and_nothing_else(headers):
    """Not the types of the headers, nor names that are not UTF-8 or come twice."""
    table = len(headers).to_bytes(4, "big") + headers
    old, new = b"\x15amq.rabbitmq.reply-to", b"\x18amq.rabbitmq.reply-to.17"
    flags = ((1 << 15) | HEADERS | REPLY_TO | (1 << 3)).to_bytes(2, "big")
    data = flags + b"\4text" + table + old + b"\3app"

    assert with_reply_to(data, new[1:].decode()) == data.replace(old, new)


def test_a_reply_address_comes_where_it_belongs():
    values = {"correlation_id": "c", "expiration": "5", "timestamp": 3}

    changed = with_reply_to(write_properties(values), "r")

    assert changed == write_properties({**values, "reply_to": "r"})
