"""The stateful stage's loop for a sequenced vhost: it follows the log alone (`broker.sequence`).

What it makes of the log is what the AMQP front has answered its clients already. So it sends
nothing to them, and compares the digests that the front wrote into the log. A difference fails the
batch before anything of it is committed. It does answer clients of Kafka, whose commands the front
has copied into the log.
"""

from typing import Final

from streaming.broker.config import ShardConfig
from streaming.broker.events import COPIED_CHANNEL, Actor
from streaming.broker.message import Message, PublishedPort
from streaming.broker.outbound import with_actor
from streaming.broker.sequence.log_fold import LogFold, Terms
from streaming.broker.shard import Batch, Shard
from streaming.broker.state.store import StateStore
from streaming.broker.state.vhost_codec import VhostCache
from streaming.pipeline.shard_block import Records
from streaming.protocol.log_record_effects import fold_record

FOLDED: Final = (
    *("at_ms", "topic_number", "partition", "offset", "body_file", "body_row", "size"),
    *("publication", "flags", "actor"),
)
"""The columns of a record that both folds read."""


def fold_log(
    config: ShardConfig,
    terms: Terms,
    store: StateStore,
    records: Records,
    published: PublishedPort,
    cache: VhostCache,
) -> tuple[Batch, tuple[int, int] | None]:
    """Fold the records of a batch; `published` reads headers of messages.

    Returns:
        What came of them, and the last range of offsets whose digest was equal to the front's.

    Raises:
        FoldsDifferError: the front came to something else.
        OtherTermsError: the log goes on on other terms than those of this job.
    """
    shard = Shard(config, store, cache=cache, published=published)
    fold = LogFold(shard, store, terms)
    columns = records.columns
    publications, actors, epochs = records.publications, records.actors, records.epochs
    rows = zip(*(columns[name].tolist() for name in FOLDED), strict=True)
    values = columns["command"]
    for row, (at_ms, topic, partition, offset, file, place, size, code, flags, who) in enumerate(
        rows
    ):
        epoch, actor = epochs[who], actors[who]
        if code >= 0:
            message = Message(topic, partition, offset, file, place, size)
            if fold.begin(offset, epoch):
                fold.publish(at_ms, message, publications[code], flags, actor)
            else:
                fold.void(message, actor)
        else:
            fold_record(fold, (offset, at_ms), flags, epoch, values[row].as_py(), actor)
    return fold.finish(), fold.compared


def copied_out(batch: Batch) -> Batch:
    """A batch with the outbound records for clients of Kafka alone, on the channels they know.

    The numbers of outbound records still only go up, from batch to batch, too.
    """
    return batch._replace(
        outbound=[
            with_actor(out, Actor(out.actor.user, out.actor.channel[len(COPIED_CHANNEL) :]))
            for out in batch.outbound
            if out.actor.is_copied
        ]
    )
