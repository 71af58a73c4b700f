"""State as bytes: values stay equal, versions are checked, and layout changes are noticed."""

import hashlib
import re
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from streaming.broker.channels.deliveries import DELIVERIES
from streaming.broker.config import ShardConfig
from streaming.broker.message import Copy, Death, DeathNote, Envelope, Message
from streaming.broker.queues.held_copies import HELD
from streaming.broker.redrives.records import ChunkRecord, ClosedRecord, OpenRecord
from streaming.broker.shard import Shard
from streaming.broker.state import encoding
from streaming.broker.state.encoding import StateVersionError, decode_table, encode_table
from streaming.broker.state.page_records import EnvelopeRecord, PageRecord
from streaming.broker.state.pages import COPIES, decode_envelope, encode_envelope
from streaming.broker.state.schema import (
    ChannelRecord,
    Delivery,
    DirectoryRecord,
    HeaderRecord,
    Held,
    OwnersRecord,
    QueueRecord,
    UnfinishedRecord,
)
from streaming.broker.state.store import MemoryStore
from streaming.broker.state.vhost_codec import _Record as TopologyRecord
from topology.values import Timestamp

TABLE: dict[str, Any] = {
    "none": None,
    "true": True,
    "int": -5,
    "large": 2**64 - 1,
    "larger": 2**64,
    "negative": -(2**63) - 1,
    "float": 1.0,
    "text": "tëxt",
    "bytes": b"\xff\x00",
    "time": Timestamp(1_600_000_000),
    "decimal": Decimal("1.50"),
    "list": [1, "a", [Timestamp(1)], {"deep": Decimal(2)}],
    "table": {"a": {"b": 10**30}},
}


def typed(value: object) -> object:
    """A value with the types of its parts, since True equals 1 and 1 equals 1.0."""
    match value:
        case list():
            return [typed(item) for item in value]
        case dict():
            return {name: typed(item) for name, item in value.items()}
        case _:
            return (type(value).__name__, value)


@pytest.mark.parametrize("table", [None, {}, TABLE, *({name: TABLE[name]} for name in TABLE)])
def test_a_decoded_table_has_the_same_types(table):
    assert typed(decode_table(encode_table(table))) == typed(table)


def an_envelope() -> Envelope:
    death = Death(2, "expired", "work", 1_600_000_000, "x", ("k", "cc"), "5000")
    given = Death(10, "rejected", "other", 0, "", (), None, {"count": 9, "odd": 10**30})
    return Envelope(
        "dlx",
        ("k", "cc", "bcc"),
        ("bcc",),
        ("cc",),
        "70",
        70,
        9,
        (death, given),
        DeathNote("expired", "work", "x"),
        DeathNote("rejected", "other", ""),
        rerouted=True,
        given_x_death=[{"count": 10**30}],
        dropped=("BCC",),
        added=TABLE,
    )


def a_copy(number: int, envelope: Envelope) -> Copy:
    return Copy(number, Message(1, 2, 3, 4, 5, 6), envelope, -7, 1 << 62, 8, 9, 1)


def plain(value: Any) -> Any:
    """A record and its envelopes as builtins."""
    if isinstance(value, Envelope):
        kept = set(Envelope.__slots__) - {"at_rest"}
        return {name: plain(getattr(value, name)) for name in kept}
    if isinstance(value, msgspec.Struct) and not isinstance(value, Timestamp):
        return [plain(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return typed(value)


def test_a_page_of_copies_is_decoded_unchanged_and_has_a_shared_envelope_once():
    shared, other = an_envelope(), Envelope("", ("work",))
    copies = [a_copy(1, shared), a_copy(2, other), a_copy(3, shared)]

    data = COPIES.encode(copies)
    back = COPIES.decode(data)

    assert plain(back) == plain(copies)
    assert back[0].envelope is back[2].envelope


def test_equal_copies_are_the_same_bytes_whether_or_not_they_share_an_envelope():
    shared = an_envelope()

    apart = COPIES.encode([a_copy(number, an_envelope()) for number in range(3)])

    assert apart == COPIES.encode([a_copy(number, shared) for number in range(3)])


def test_deliveries_and_held_copies_are_decoded_unchanged():
    delivery = Delivery(1, 2, 3, 4, a_copy(1, an_envelope()))
    held = Held(a_copy(1, an_envelope()), "expired", 5, ("a",), held=True, cause="a typo")

    assert plain(DELIVERIES.decode(DELIVERIES.encode([delivery]))) == plain([delivery])
    assert plain(HELD.decode(HELD.encode([held]))) == plain([held])


def test_state_of_another_version_is_refused_with_a_remedy():
    store = MemoryStore()
    Shard(ShardConfig(), store).finish()
    store.values["header"] = bytes((encoding.STATE_VERSION + 1,)) + store.values["header"][1:]

    with pytest.raises(StateVersionError) as caught:
        Shard(ShardConfig(), store)

    assert str(caught.value) == (
        "the state has version 2, but this program reads version 1:"
        " run the version of the program that wrote it"
    )
    assert caught.value.args == (2,)


def shape_of(record: type[msgspec.Struct]) -> str:
    """The layout of a record and its inner records: types by position; names are not stored."""
    lines, work = [], [record]
    for struct in work:
        for field in msgspec.structs.fields(struct):
            work += [
                inner
                for inner in _structs_in(field.type)
                if isinstance(inner, type)
                and issubclass(inner, msgspec.Struct)
                and inner not in work
            ]
            lines.append(f"{work.index(struct)}: {_positional(field.type, work)}")
    return "\n".join(lines)


def _positional(kind: Any, structs: list[type[msgspec.Struct]]) -> str:
    """A type as text, with the numbers of structs instead of their names."""
    text = str(kind)
    for number, struct in enumerate(structs):
        text = re.sub(rf"(<class ')?\b[\w.]*\b{struct.__name__}\b('>)?", f"#{number}", text)
    return re.sub(r"\b(?:streaming|topology)[\w.]*\.", "", text)


def _structs_in(kind: Any) -> list[Any]:
    inner = getattr(kind, "__args__", ())
    return [kind, *(found for one in inner for found in _structs_in(one))]


def test_a_changed_layout_needs_a_new_version():
    """After a change to a record, raise STATE_VERSION and renew this digest."""
    records = (
        HeaderRecord,
        TopologyRecord,
        QueueRecord,
        ChannelRecord,
        DirectoryRecord,
        OwnersRecord,
        Copy,
        Delivery,
        Held,
        PageRecord,
        EnvelopeRecord,
        UnfinishedRecord,
        OpenRecord,
        ChunkRecord,
        ClosedRecord,
        Message,
    )
    layout = "\n".join(shape_of(record) for record in records)

    digest = hashlib.sha256(layout.encode()).hexdigest()[:16]

    assert (encoding.STATE_VERSION, digest) == (1, "1cace9ba97b8b559")


def test_a_worker_does_not_remember_large_envelopes():
    small, large = (Envelope("", ("work", *["key"] * count)) for count in (1, 1_000))

    again = [
        COPIES.decode(COPIES.encode([a_copy(1, one)]))[0].envelope
        for one in (small, large)
        for _ in range(2)
    ]

    assert again[0] is again[1]
    assert again[2] is not again[3]
    assert plain(again[2]) == plain(large)


def test_an_envelope_is_encoded_alone():
    envelope = Envelope("orders", ("paid", "eu"))

    found = decode_envelope(encode_envelope(envelope))

    assert (found.exchange, found.routing_keys) == ("orders", ("paid", "eu"))
