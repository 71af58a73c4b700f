"""The state that is rebuilt from the tables equals the one that wrote them."""

import copy
from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.handlers import lifecycle
from streaming.broker.rebuilt_shard import rebuild_shard
from streaming.broker.redrive_letters import Letter, Target
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.ledger.batch_detail import BatchDetail, KnownManifest
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Tables
from streaming.queries.state.shards import known_shards
from tests.builders import Broker
from tests.seeds import seeds
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import Recording, apart

PLACE = ("/", 0)


def recovered(broker, store):
    """The shard once its channels are lost, as they are by a rebuild."""
    shard = Shard(broker.config, store, now_ms=broker.time_ms, published=broker.published)
    if not shard.state.is_rebuilt:
        lifecycle.recover(shard.state)
        shard._finish_step()  # noqa: SLF001 - what a rebuilt shard does when it is opened
    return shard


def detail_of(brokers):
    """What a batch row says of shards."""
    keys = {place: key for key, place in enumerate(brokers)}
    return BatchDetail(
        manifest=KnownManifest(shards={f"{lane} {vhost}": n for (vhost, lane), n in keys.items()}),
        clocks={keys[place]: (broker.shard.now_ms, 1) for place, broker in brokers.items()},
    )


def rebuilt_store(recording, broker):
    tables = Tables(recording.root)
    known = known_shards(tables, broker.config.compat, detail_of({PLACE: broker}))[PLACE]
    store = MemoryStore()
    store.values.update(rebuild_shard(known, broker.config))
    tables.close()
    return store


def seen(events):
    """Events without what a rebuild does not know: the order of channels, names of lost ones."""
    return sorted(
        (event.kind.name, event.queue, event.copy.copy_id, event.number, event.copy.requeue_count)
        for event in events.rows()
        if event.copy is not None
    )


def letter(envelope):
    return {name: getattr(envelope, name) for name in envelope.__slots__ if name != "at_rest"}


def contents(shard):
    found = {}
    for name in sorted(shard.vhost.queues):
        queue = shard.state.queues.named(name)
        held = [each.copy for each in queue.held.fifo.take_all()] if queue.held.count else []
        copies = [*queue.order.take_all(), *held]
        found[name] = (
            [
                (
                    *(one.copy_id, one.position, one.deadline_ms, one.parent_copy_id),
                    *(
                        one.requeue_count,
                        letter(one.envelope),
                        one.message.offset,
                        one.message.size,
                    ),
                )
                for one in copies
            ],
            (queue.ready, queue.ready_bytes, queue.unacked, queue.held.count),
        )
    return found


@pytest.mark.parametrize("compat", ["4.0", "3.10"])
@pytest.mark.parametrize("seed", seeds(3, 6))
def test_a_rebuilt_state_equals_the_one_that_was_lost(tmp_path, seed, compat):
    play = RandomPlay(seed, compat=compat)
    broker = play.broker
    recording = Recording(tmp_path, broker)
    writer = SnapshotWriter(recording.place)
    for number in range(4):
        play.steps(play.chance.randrange(20, 60))
        recording.commit()
        if seed % 2 and number == 1:
            writer.write()
    lost = recovered(broker, copy.deepcopy(broker.store))

    again = recovered(broker, rebuilt_store(recording, broker))

    assert seen(again.events) == seen(lost.events)
    assert again.events.first_seq == lost.events.first_seq
    assert again.vhost.definitions() == lost.vhost.definitions()
    assert contents(again) == contents(lost)
    recording.close()


def test_what_redrives_did_is_known_again(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for number in range(4):
        broker.publish("", "work", f"m{number}")
    broker.get("work", "g", 4)
    for number in range(4):
        broker.do(commands.Reject(refs=(f"g/{number}",)))
    letters = [
        Letter(0, row.copy.copy_id, "dead", Target("work", "", ("work",)))
        for row in broker.shard.events.rows()
        if row.kind == Kind.ENQUEUED and row.queue == "dead" and row.copy is not None
    ]
    sealed: dict[str, Any] = {"reason": "try again", "seal": "s"}
    broker.do(commands.Redrive(id="done", letters=tuple(letters[:1]), total=1, **sealed))
    broker.do(commands.Redrive(id="open", letters=tuple(letters[1:3]), total=3, **sealed))
    recording.commit()
    tables = Tables(recording.root)

    known = known_shards(tables, "4.0", BatchDetail())[PLACE]

    assert {name: each.moved for name, each in known.ended_redrives.items()} == {"done": 1}
    assert [(each.id, each.moved, each.left()) for each in known.open_redrives] == [("open", 0, 3)]
    assert contents(recovered(broker, rebuilt_store(recording, broker))) == contents(
        recovered(broker, copy.deepcopy(broker.store))
    )


@pytest.mark.parametrize("is_written", [False, True])
def test_one_vhost_opens_as_it_was_after_an_earlier_batch(tmp_path, is_written):
    plays = [RandomPlay(seed, vhost=vhost) for seed, vhost in enumerate(("/", "other"))]
    brokers = [plays[0].broker, apart(plays[1].broker, 1_000)]
    recording = Recording(tmp_path, *brokers)
    for play in plays:
        play.steps(60)
    batch_id = recording.commit()
    lost = recovered(brokers[1], copy.deepcopy(brokers[1].store))
    detail = detail_of({("/", 0): brokers[0], ("other", 0): brokers[1]})
    for play in plays:
        play.steps(60)
    recording.commit()
    if is_written:
        SnapshotWriter(recording.place).write(batch_id)
    tables = Tables(recording.root)
    tables.cut, tables.vhosts = Cut(batch_id), frozenset({"other"})

    known = known_shards(tables, "4.0", detail)

    store = MemoryStore()
    store.values.update(rebuild_shard(known["other", 0], brokers[1].config))
    assert list(known) == [("other", 0)]
    assert contents(recovered(brokers[1], store)) == contents(lost)
    recording.close()


@pytest.mark.parametrize("is_written", [False, True])
def test_held_copies_keep_the_order_in_which_they_died(tmp_path, is_written):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue(
        "safe",
        queue_type="quorum",
        dead_letter_exchange="nowhere",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    for number in range(3):
        broker.publish("", "safe", f"m{number}")
    broker.get("safe", "g", 3)
    for number in (2, 0, 1):
        broker.do(commands.Reject(refs=(f"g/{number}",)))
    recording.commit()
    if is_written:
        SnapshotWriter(recording.place).write()

    lost = contents(recovered(broker, copy.deepcopy(broker.store)))

    copies, counts = lost["safe"]
    assert [place[1] for place in copies] == [2, 0, 1]
    assert counts[-1] == 3
    assert contents(recovered(broker, rebuilt_store(recording, broker))) == lost
    recording.close()
