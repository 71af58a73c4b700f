"""Blobs between the stages, and the order in which records take effect (D4)."""

from decimal import Decimal
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.pipeline.shard_block import effect_order, pack, record_table, unpack
from topology.values import Timestamp

HEADERS = {"CC": ["a"], "x-death": [{"time": Timestamp(5), "much": Decimal("1.50"), "n": None}]}


def blob(partition: int, offsets: list[int], times: list[int], key: str, channel: str) -> bytes:
    publications = [Publication("x", key, "60", 1, HEADERS)]
    rows = len(offsets)
    columns = {
        "topic_number": np.full(rows, 1),
        "partition": np.full(rows, partition),
        "offset": offsets,
        "at_ms": times,
        "publication": np.zeros(rows),
        "actor": np.zeros(rows),
        "size": np.full(rows, 7),
    }
    return pack(record_table(columns), publications, [Actor("guest", channel)], 123)


def test_a_blob_is_read_as_it_was_written():
    records = unpack([blob(0, [4, 5], [10, 11], "k", "c")])

    publication = records.publications[0]
    assert records.now_ms == 123
    assert records.actors == [Actor("guest", "c")]
    assert records.columns["offset"].tolist() == [4, 5]
    assert records.columns["body_file"].tolist() == [-1, -1]
    assert records.columns["command"].to_pylist() == [None, None]
    assert (publication.exchange, publication.routing_key) == ("x", "k")
    assert (publication.expiration, publication.priority) == ("60", 1)
    assert publication.headers == HEADERS


def test_equal_publications_of_several_blobs_become_one_and_commands_have_none():
    command = record_table(
        {"offset": [9], "at_ms": [50], "partition": [2], "command": [b"{}"], "topic_number": [2]}
    )
    blobs = [
        blob(0, [0], [10], "k", "a"),
        pack(command, [], [Actor("guest", "c")], 1),
        blob(1, [5], [20], "other", "b"),
        blob(2, [7], [30], "k", "b"),
    ]

    records = unpack(blobs)

    assert records.columns["publication"].tolist() == [0, 1, 0, -1]
    assert [one.routing_key for one in records.publications] == ["k", "other"]


def test_blobs_are_merged_by_the_running_maximum_of_their_timestamps():
    blobs = [
        blob(0, [0, 1, 2], [10, 5, 30], "zero", "a"),  # offset 1 counts as 10
        blob(1, [7, 8], [9, 20], "one", "b"),
    ]

    for order in permutations(blobs):
        records = unpack(list(order))
        keys = [records.publications[code].routing_key for code in records.columns["publication"]]
        channels = [records.actors[code].channel for code in records.columns["actor"]]

        assert records.columns["offset"].tolist() == [7, 0, 1, 8, 2]
        assert keys == ["one", "zero", "zero", "one", "zero"]
        assert channels == ["b", "a", "a", "b", "a"]


def obvious_order(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """(partition, offset, time) in the order of D4, computed in the most obvious way."""
    ranked = []
    for partition, offset, at_ms in rows:
        before = [t for p, o, t in rows if p == partition and o <= offset]
        ranked.append((max(before), partition, offset, at_ms))
    return [(partition, offset, at_ms) for _running, partition, offset, at_ms in sorted(ranked)]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)),
        unique_by=lambda row: row[:2],
        max_size=25,
    )
)
def test_the_order_of_effect_equals_that_of_an_obvious_model(rows):
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(3)]
    partition, offset, at_ms = columns

    order = effect_order(np.zeros(len(rows), np.int64), partition, offset, at_ms)

    assert [rows[index] for index in order] == obvious_order(rows)


def test_an_unknown_column_length_is_an_assertion_error():
    with pytest.raises(ValueError, match="length"):
        record_table({"offset": [1, 2], "at_ms": [1]})
