"""The state of a sequenced vhost after a batch, folded from its log again.

    newest snapshot of the front that is not behind the batch, or the start of the log
        --records up to where the batch ended--> the state that the job had

The tables do not have all that decides what a log comes to. The log has: its fold is the same as
the one that was lost, so the front goes on as if nothing had happened.
"""

import os
from functools import partial
from typing import NamedTuple

from streaming.broker.config import ShardConfig
from streaming.broker.message import NO_FILE, Message
from streaming.broker.relocated_state import relocate
from streaming.broker.sequence.log_fold import FoldsDifferError
from streaming.config import JobConfig
from streaming.config.clients import librdkafka_properties
from streaming.job_locations import checkpoint_place
from streaming.ledger.batch_detail import KnownManifest
from streaming.queries.state.copies import LostStateError
from streaming.sequencer.bodies import BodyReader
from streaming.sequencer.copied_positions import IDS as COPIED_IDS
from streaming.sequencer.copied_positions import KEY as COPIED
from streaming.sequencer.log_reader import LogReader, records_between
from streaming.sequencer.needed_offsets import KEY as NEEDED
from streaming.sequencer.snapshots import Snapshot, Snapshots
from streaming.sequencer.verify import RangeFold
from streaming.topic_ids import topic_identity


class FoldedState(NamedTuple):
    """What a log came to.

    Attributes:
        begin: the state that was folded on from is that at this offset; 0 is the start.
        end: the first record that is not in it.
        next_seq: of its next event.
        messages: copies that have not ended.
        entries: of the state store.
    """

    begin: int
    end: int
    next_seq: int
    messages: int
    entries: dict[str, bytes]


def fold_log_to(
    config: JobConfig, manifest: KnownManifest, shard: ShardConfig, end: int
) -> FoldedState:
    """Fold the log of a vhost up to an offset.

    Raises:
        LostStateError: it cannot be folded from its start, nor from a snapshot, or it is not what
            the front has folded.
        LogUnreadableError: Kafka does not answer.
        OtherLogError: a snapshot is of another log.
    """
    vhost = shard.vhost
    topic = config.log_topics()[vhost]
    properties = librdkafka_properties(config.kafka, os.environ)
    reader = LogReader(properties, topic)
    bodies = BodyReader(LogReader(properties, topic))
    try:
        log = reader.identity(vhost)
        number = manifest.topics.get(topic_identity(log.cluster, log.topic_id))
        if number is None:
            raise LostStateError(
                f"vhosts.{vhost}: the job has read another log than {log}: the topic was made "
                "again, or Kafka is another one. Correct kafka.bootstrap_servers or restore it"
            )
        first, last = reader.ends()
        found = _newest(Snapshots(checkpoint_place(config, os.environ), log), first, end)
        if (found is None and first) or last < end:
            raise LostStateError(
                f"vhosts.{vhost}: its state after the last batch is what its log {topic} came to "
                f"before offset {end}. The log has the offsets {first} to {last}, and no snapshot "
                "of the front from before can be used. Restore the checkpoint from a backup, or "
                "its folder `sequencer`"
            )
        fold = RangeFold(shard, bodies.fetch, None if found is None else found.entries, terms=None)
        begin = fold.fold.next_offset
        for portion in records_between(reader, begin, end):
            for record in portion:
                fold.take(record)
            fold.rest()
    except FoldsDifferError as error:
        raise LostStateError(
            f"vhosts.{vhost}: {error}. Restore the checkpoint from a backup, or rebuild it with "
            "the version and the settings that the front had then"
        ) from error
    finally:
        bodies.close()
        reader.close()
    return state_of(fold, begin, number)


def state_of(fold: RangeFold, begin: int, topic_number: int) -> FoldedState:
    """What a fold of a front came to, as the state of a job. Do not use the fold afterwards.

    Args:
        begin: where it began.
        topic_number: of the log, in the tables.
    """
    end = fold.fold.next_offset
    batch = fold.fold.finish()
    entries = fold.entries
    for key in (NEEDED, COPIED, COPIED_IDS):  # the front's alone
        entries.pop(key, None)
    relocate(entries, partial(_in_table, topic_number))
    return FoldedState(begin, end, batch.events.next_seq, batch.resident_messages, entries)


def _newest(snapshots: Snapshots, first: int, end: int) -> Snapshot | None:
    """The newest snapshot in a range of offsets; None if none can be used."""
    offsets = [offset for offset in snapshots.offsets() if first <= offset <= end]
    return next(filter(None, map(snapshots.at, reversed(offsets))), None)


def _in_table(number: int, message: Message) -> None:
    """Let a message be that of a topic, and be found in `messages` by its key."""
    message.topic_number = number
    message.body_file, message.body_row = NO_FILE, 0
