"""A shard that was rebuilt: what is lost with its channels, and what goes on."""

from typing import Any

from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor, Kind
from streaming.broker.message import (
    CONFIRM,
    NEVER,
    NO_COPY,
    Copy,
    Envelope,
    Message,
    publication_of,
)
from streaming.broker.outbound import ConfirmOut
from streaming.broker.rebuilt_shard import (
    KnownConsumer,
    KnownDelivery,
    KnownShard,
    Positions,
    rebuild_shard,
)
from streaming.broker.redrive_letters import RedriveOptions
from streaming.broker.redrives.moves import RepublishedCopies
from streaming.broker.redrives.records import FINISHED, PAUSED, Chunk, ClosedRecord, OpenRecord
from streaming.broker.redrives.versions import Versions
from streaming.broker.shard import Shard
from streaming.broker.state.schema import Held
from streaming.broker.state.store import MemoryStore
from topology.declarations import Queue
from topology.vhost import Vhost

ANN = Actor("ann", "c1")
NOW_MS = 1_600_000_000_000
CONFIG = ShardConfig()


def a_copy(number, position=0):
    message = Message(1, 0, number, -1, 0, 10)
    return Copy(number, message, Envelope("", ("q",)), position, NEVER, NO_COPY)


def known(*queues, **fields):
    vhost = Vhost()
    for queue in queues:
        vhost.add_queue(queue)
    return KnownShard(NOW_MS, 100, 7, vhost, **fields)


def opened(shard, config=CONFIG):
    store = MemoryStore()
    store.values.update(rebuild_shard(shard, config))
    return Shard(config, store)


def told(shard):
    return [(event.kind, event.detail) for event in shard.events.rows()]


def test_numbers_continue_and_a_second_batch_is_an_ordinary_one():
    shard = opened(known(Queue("q"), ready=[("q", a_copy(5, 3))], positions={"q": Positions(4)}))
    store = shard.state.context.store

    batch = shard.finish()

    assert (batch.events.first_seq, batch.first_outbound, batch.now_ms) == (100, 7, NOW_MS)
    assert (batch.resident_messages, batch.resident_bytes, len(batch.events)) == (1, 10, 0)
    assert not Shard(CONFIG, store).state.is_rebuilt


def test_queues_with_which_there_is_nothing_to_do_are_declared_and_empty_and_stay():
    brief = Queue("brief", arguments={"x-expires": 1_000})
    ready = [("q", a_copy(5, 3))]
    whole, part = (known(Queue("q"), brief, ready=[*ready]) for _ in range(2))
    store = MemoryStore()
    store.values.update(rebuild_shard(part, CONFIG, only=["q"]))
    shard = Shard(CONFIG, store)

    for each in (shard, opened(whole)):
        assert {name: each.state.queues.named(name).ready for name in each.vhost.queues} == {
            "q": 1,
            "brief": 0,
        }
        each.advance(NOW_MS + 2_000)

    assert set(shard.vhost.queues) == {"q", "brief"}
    assert set(each.vhost.queues) == {"q"}, "a queue that is restored begins to expire"


def test_a_delivery_is_requeued_in_its_place_by_the_loss_of_its_channel():
    shard = opened(
        known(
            Queue("q"),
            ready=[("q", a_copy(5, 3))],
            unacked=[KnownDelivery("q", a_copy(4, 2), ANN, NOW_MS)],
            channels=[ANN],
        )
    )

    queue = shard.state.queues.named("q")

    assert [(each.copy_id, each.requeue_count) for each in queue.order.take_all()] == [
        (4, 1),
        (5, 0),
    ]
    assert [kind for kind, _detail in told(shard)] == [Kind.CHANNEL, Kind.REQUEUED]
    assert told(shard)[0][1]["cause"] == "checkpoint_rebuilt"


def test_consumers_exclusive_and_auto_delete_queues_go_with_the_channels():
    shard = opened(
        known(
            Queue("mine", exclusive=True),
            Queue("nobody knows whose", exclusive=True),
            Queue("brief", auto_delete=True),
            Queue("q"),
            consumers=[
                KnownConsumer(ANN, "tag", "brief", 5, auto_ack=False),
                KnownConsumer(ANN, "other", "q", 0, auto_ack=True),
            ],
            owners={"mine": ANN},
        )
    )

    assert set(shard.vhost.queues) == {"q"}
    assert shard.state.channels.count() == 0
    cancelled = [detail for _kind, detail in told(shard) if detail["what"] == "consumer_cancelled"]
    assert [detail["consumer"] for detail in cancelled] == ["tag", "other"]


def test_held_copies_keep_the_targets_that_have_accepted_them():
    at_least_once: dict[str, Any] = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "target",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    held = Held(a_copy(4), "expired", NOW_MS // 1000, ("target",), held=True)

    shard = opened(known(Queue("safe", arguments=at_least_once), held=[("safe", held)]))

    queue = shard.state.queues.named("safe")
    assert (queue.held.count, queue.held.bytes) == (1, 10)
    assert queue.held.retry_timer_ms == NOW_MS + CONFIG.dead_letter_retry_ms
    assert [each.accepted for each in queue.held.fifo.take_all()] == [("target",)]


def test_a_full_quorum_queue_refuses_until_it_is_drained_and_knows_no_publisher_any_more():
    """All channels were closed, so each publisher is new (R-LEN-18)."""
    limited: dict[str, Any] = {
        "x-queue-type": "quorum",
        "x-max-length": 10,
        "x-overflow": "reject-publish",
    }

    def confirms(ready):
        copies = [("q", a_copy(number, number)) for number in range(ready)]
        shard = opened(known(Queue("q", arguments=limited), ready=copies))
        publication = publication_of("", "q", {}, None)
        drain = commands.Get(queue="q", count=3, auto_ack=True)
        for number in range(2):
            shard.publish(NOW_MS, a_copy(number).message, publication, CONFIRM)
        shard.command(NOW_MS, drain)
        shard.publish(NOW_MS, a_copy(2).message, publication, CONFIRM)
        return [out.ack for out in shard.outbound if isinstance(out, ConfirmOut)]

    assert confirms(9) == [True, True, True]
    assert confirms(10) == [True, False, True]
    assert confirms(11) == [False, False, True]
    assert confirms(12) == [False, False, False]


def test_copies_that_were_requeued_to_a_quorum_queue_stay_in_front():
    shard = opened(
        known(
            Queue("q", arguments={"x-queue-type": "quorum"}),
            ready=[("q", a_copy(4, -7)), ("q", a_copy(9, -6)), ("q", a_copy(2, 1))],
            positions={"q": Positions(2, -5)},
        )
    )

    queue = shard.state.queues.named("q")

    assert queue.quorum_order.next_requeued == -5
    assert [(each.copy_id, each.position) for each in queue.order.take_all()] == [
        (4, -7),
        (9, -6),
        (2, 1),
    ]


def test_open_redrives_are_cancelled_and_ended_ones_move_nothing_again():
    record = OpenRecord("r1", 9, "ann", "why", "seal", RedriveOptions(), 5, status=PAUSED)
    record.chunks = [Chunk(0, 3)]
    ended = ClosedRecord("seal", FINISHED, 2, 2, 0, 0)

    shard = opened(
        known(open_redrives=[record], ended_redrives={"r0": ended}, republished=[4, 5000])
    )

    [(kind, detail)] = told(shard)
    assert (kind, detail["what"], detail["left"]) == (Kind.REDRIVE, "cancelled", 3)
    found = [shard.state.redrives.named(name).status for name in ("r0", "r1")]
    assert found == [FINISHED, "cancelled"]
    again = RepublishedCopies(shard.state.context.store)
    assert [copy_id in again for copy_id in (4, 5000, 5)] == [True, True, False]


def test_the_versions_of_letters_are_kept():
    version = Message(1, 0, 9, -1, 0, 10)
    config = ShardConfig(sequenced=True)
    shard = opened(known(Queue("q"), versions={"b" * 64: version}), config)

    found = Versions(shard.state.context).find("b" * 64)

    assert found is not None
    assert found.offset == 9


def test_every_copy_that_has_not_ended_is_resident():
    delivery = KnownDelivery("q", a_copy(2), ANN, NOW_MS)
    held = Held(a_copy(3), "rejected", 0)

    assert known(ready=[("q", a_copy(1))], unacked=[delivery], held=[("q", held)]).resident() == 3
