"""The contents of queues by net changes equal the broker's state, whatever the batches are."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.contents.net_changes import CONTENTS_SCHEMA, encode, net_changes
from streaming.contents.pending_nets import PendingNets, ShardNet, contents_after
from streaming.pipeline.rows.events import event_table
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.state import contents_of

QUERY_ID = "one-query"


def as_the_oracle(rows):
    """Rows of `queue_contents` with the columns that the broker's state has."""
    found = rows.to_pylist()
    for row in found:
        row["offset"] = row.pop("message_id")["offset"]
        expires = row.pop("expires_at")
        row["expires_at_ms"] = None if expires is None else round(expires.timestamp() * 1000)
        for name in ("query_id", "batch_id", "enqueued_at"):
            del row[name]
    return found


@given(st.integers(0, 10_000), st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=6))
def test_net_changes_of_any_batches_give_the_contents_of_the_queues(seed, batches):
    play = RandomPlay(seed)
    pending = PendingNets()
    stored, as_of = CONTENTS_SCHEMA.empty_table(), -1
    for batch_id, (steps, is_update) in enumerate([(0, False), *batches, (1, True)]):
        play.steps(steps)
        events = play.broker.finish().events
        nets = []
        if len(events):
            table = event_table(events, QUERY_ID, batch_id, "/", 0)
            nets = [ShardNet("/", 0, encode(net_changes(table)) or b"")]
        pending.add(QUERY_ID, batch_id, nets)
        if is_update:
            found = pending.after(QUERY_ID, as_of)
            assert found is not None
            as_of, changes = found
            stored = contents_after([stored], changes)

            assert as_the_oracle(stored) == contents_of(play.broker)
