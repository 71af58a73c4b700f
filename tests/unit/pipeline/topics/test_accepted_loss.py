"""Accepting a loss drops an unfinished batch, and never gives its outbound numbers again."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.broker.outbound import OUTBOUND_STEP
from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.checkpoint.manifest import read_manifest
from streaming.pipeline.checkpoint.table_match import TableBatches
from streaming.pipeline.topics.accepted_loss import AcceptedLoss, check_gaps
from streaming.pipeline.topics.offset_gaps import Gap, LogTooShortError, LostLogError
from streaming.storage.location import Location

TOPICS: Any = SimpleNamespace(partitions={"t": 1}, identities={"t": "cluster/t"})
GAP = Gap("t", 1, 0, start=5, end=9, resume=9)
NOW_MS = 1_700_000_000_000


def plan(folder, batch_id, end):
    ends = f'publishes:{{"t":{{"0":{end}}}}}'
    lines = ["v2", json.dumps({"batchTimestampMs": NOW_MS}), ends, "commands:-"]
    (folder / "offsets" / str(batch_id)).write_text("\n".join(lines))


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint of two shards whose batch 0 has ended."""
    folder = tmp_path / "checkpoint"
    for name in ("offsets", "commits", "state"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"query"}')
    (folder / "commits" / "0").write_text("v1\n{}")
    plan(folder, 0, end=5)
    checkpoint = Checkpoint(folder)
    checkpoint.manifest.shuffle_partitions = 2
    checkpoint.manifest.topic_number("cluster/t", "t")
    for lane in range(2):
        checkpoint.manifest.shard_key("/", lane)
    checkpoint.save()
    checkpoint.open(2, "", {}, TableBatches(frozenset({"query"}), {"events": 0}))
    return checkpoint


@pytest.fixture
def ledger(tmp_path, checkpoint):
    """Tables with batch 0; one of the shards has sent records before."""
    [_first, second] = checkpoint.manifest.shards.values()
    clocks = {second: (NOW_MS, OUTBOUND_STEP + 7)}
    with Ledger(Location(str(tmp_path / "tables"))) as ledger:
        ledger.commit([], BatchRow("query", 0, NOW_MS, BatchDetail(clocks=clocks)))
        yield ledger


def test_a_dropped_batch_raises_the_outbound_numbers_of_every_shard(checkpoint, ledger):
    plan(checkpoint.path, 1, end=9)

    AcceptedLoss(checkpoint).accept([GAP], ledger, TOPICS)

    [first, second] = checkpoint.manifest.shards.values()
    raised = {first: OUTBOUND_STEP, second: 2 * OUTBOUND_STEP}
    assert checkpoint.manifest.outbound_from == raised
    assert not checkpoint.logs.has_unfinished_batch()
    found = read_manifest(checkpoint.path)
    assert found is not None
    assert found.outbound_from == raised
    again = Checkpoint(checkpoint.path)
    again.open(2, "", {}, TableBatches(frozenset({"query"}), {"events": 0}))
    assert again.manifest.outbound_from == raised

    plan(checkpoint.path, 1, end=12)
    AcceptedLoss(again).accept([GAP], ledger, TOPICS)

    assert again.manifest.outbound_from == {first: 2 * OUTBOUND_STEP, second: 3 * OUTBOUND_STEP}


def test_a_loss_between_two_batches_leaves_the_numbers(checkpoint, ledger):
    AcceptedLoss(checkpoint).accept([GAP], ledger, TOPICS)

    assert checkpoint.manifest.outbound_from == {}
    assert checkpoint.logs.next_positions() == {"t": {"0": 9}}


@pytest.mark.parametrize("accepts", [True, False])
def test_the_loss_of_records_of_a_log_cannot_be_accepted(checkpoint, ledger, accepts):
    bounds = {("t", 0): (9, 12)}
    topics: Any = SimpleNamespace(**vars(TOPICS), logs={"t"}, bounds=lambda _names: bounds)

    with pytest.raises(LostLogError, match=r"(?s)offsets 5 to 8 .*--accept-loss does not hold"):
        check_gaps(checkpoint, topics, ledger, accept_loss=accepts)


@pytest.mark.parametrize(
    ("logs", "words"), [({"t"}, r"^vhosts: .*a new log"), (set(), r"^inputs: .*another topic")]
)
def test_a_topic_that_ends_too_early_is_refused_with_what_goes_on_instead(
    checkpoint, ledger, logs, words
):
    bounds = {("t", 0): (0, 3)}
    topics: Any = SimpleNamespace(**vars(TOPICS), logs=logs, bounds=lambda _names: bounds)

    with pytest.raises(LogTooShortError, match=words):
        check_gaps(checkpoint, topics, ledger, accept_loss=True)
