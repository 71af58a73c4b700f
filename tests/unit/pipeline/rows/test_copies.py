"""Columns of copies and messages equal what each event's copy says."""

import pytest

from streaming.broker.message import NO_COPY
from streaming.pipeline.rows.copies import NONE, CopyColumns
from tests.unit.queries.random_play import RandomPlay


@pytest.mark.parametrize("seed", range(5))
def test_columns_equal_the_attributes_of_each_events_copy(seed):
    play = RandomPlay(seed)
    parents = set()
    for _ in range(3):
        play.steps(120)
        events = play.broker.finish().events
        columns = CopyColumns(events)
        envelopes, codes = columns.envelopes
        for row, copy in enumerate(events.copies):
            if copy is None:
                message, _envelope = events.messages.get(row, (None, None))
                offset = NONE if message is None else message.offset
                assert (columns.copy_id[row], columns.offset[row]) == (NONE, offset)
                assert codes[row] == -1
                continue
            message = copy.message
            parent = NONE if copy.parent_copy_id == NO_COPY else copy.parent_copy_id
            parents.add(parent)
            assert (columns.copy_id[row], columns.parent_copy_id[row]) == (copy.copy_id, parent)
            found = (columns.topic_number, columns.partition, columns.offset, columns.size)
            assert tuple(column[row] for column in found) == (
                message.topic_number,
                message.partition,
                message.offset,
                message.size,
            )
            envelope = envelopes[codes[row]]
            assert (envelope.exchange, envelope.routing_keys, len(envelope.deaths)) == (
                copy.envelope.exchange,
                copy.envelope.routing_keys,
                len(copy.envelope.deaths),
            )
    assert len(parents) > 2
