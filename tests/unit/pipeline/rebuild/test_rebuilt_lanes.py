"""A rebuild of a vhost with several lanes: each lane is as it was, and all lanes are alike."""

import copy
from typing import Any

import msgspec
import pytest

from streaming.broker import commands
from streaming.broker.commands import Command, ControlRedrive, Redrive, RedriveAction
from streaming.broker.events import Kind
from streaming.broker.lanes import HOME, on_each_lane, on_lane
from streaming.broker.outbound import DeliveryOut, Outbound
from streaming.broker.queues import step_size
from streaming.broker.rebuilt_shard import rebuild_shard
from streaming.broker.redrive_letters import Letter, RedriveOptions, Target
from streaming.broker.redrives.records import OpenRecord
from streaming.broker.redrives.version_keys import VERSION_KEY
from streaming.broker.redrives.versions import Versions
from streaming.broker.state.store import MemoryStore
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from streaming.queries.redrives.outcomes import list_redrives
from streaming.queries.state.shards import known_shards
from streaming.queries.vhosts.clients import list_channels, list_consumers
from tests.builders import Broker, a_queue
from tests.seeds import seeds
from tests.unit.queries.random_play import CHANNELS, RandomPlay
from tests.unit.queries.recording import Recording, apart
from tests.unit.queries.test_known_shards import contents, detail_of, recovered, seen

LANES = 2


class LanedBroker(Broker):
    """The home lane of a vhost; what it is told, the other lanes are told as the job tells them."""

    def __init__(self, **config: Any) -> None:
        self.lanes: list[Broker] = [self]
        super().__init__(lane=HOME, lanes=LANES, **config)
        others = [Broker(lane=lane, lanes=LANES, **config) for lane in range(1, LANES)]
        self.lanes += [apart(one, 100_000 * one.config.lane) for one in others]
        self.records = 0

    def do(self, command: Command, *, user: str | None = None) -> list[Outbound]:
        channel = getattr(command, "channel", None) or ""
        before = len(self.shard.outbound)
        self.records += 1
        turn = self.records % LANES
        for lane, part, answering in on_each_lane(command, channel, turn, LANES):
            broker = self.lanes[lane]
            actor = broker.actor(user, channel)
            place = (1, 0, self.records)
            broker.shard.command(broker.time_ms, part, actor, answering, place)
        return self.shard.outbound[before:]

    def publish(self, exchange: str, routing_key: str, body: str, **fields: Any) -> list[Outbound]:
        """Publish on one lane; without what the home lane answers for the others."""
        lane = len(body) % LANES
        if lane == HOME:
            return super().publish(exchange, routing_key, body, **fields)
        return self.lanes[lane].publish(exchange, routing_key, body, **fields)

    def at(self, after_ms: int) -> Broker:
        for broker in self.lanes[1:]:
            broker.at(after_ms)
        return super().at(after_ms)

    def given(self) -> list[str]:
        """The names of the last deliveries of all lanes."""
        return [
            on_lane(out.ref, broker.config.lane)
            for broker in self.lanes
            for out in [*broker.outbound[-30:], *broker.shard.outbound]
            if isinstance(out, DeliveryOut) and out.delivery_id
        ]

    def reopen(self, stores: list[MemoryStore]) -> None:
        """Go on from these states."""
        for broker, store in zip(self.lanes, stores, strict=True):
            broker.store = store
            broker.shard = broker.reopened()


class LanedPlay(RandomPlay):
    """Random steps on a vhost of several lanes, also with leases, owned queues, and redrives."""

    broker: LanedBroker

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.redrives = 0
        self._steps += [(self.own, 4), (self.redrive, 6), (self.control, 4), (self.edit, 2)]

    def a_broker(self, **config: Any) -> Broker:
        return LanedBroker(**config)

    def settle(self) -> None:
        chance, given = self.chance, self.broker.given()
        refs = tuple(chance.sample(given, min(len(given), chance.randrange(1, 5))))
        settlement = chance.choice([commands.Ack, commands.Reject, commands.Nack])
        self.broker.do(settlement(refs=refs))

    def own(self) -> None:
        """Use a queue that goes with its consumer or its channel, perhaps one with a lease."""
        chance = self.chance
        channel, name = chance.choice(CHANNELS), f"own {chance.randrange(3)}"
        lease_ms = chance.choice([None, 80])
        self.broker.do(commands.OpenChannel(channel=channel, lease_ms=lease_ms))
        fields = chance.choice([{"exclusive": True}, {"auto_delete": True}])
        self.broker.do(commands.DeclareQueue(queue=a_queue(name, **fields), channel=channel))
        self.broker.bind("amq.fanout", name)
        self.broker.consume(name, "own", prefetch=chance.randrange(4), channel=channel)

    def redrive(self) -> None:
        """Seal some dead letters of all lanes."""
        letters = [
            Letter(broker.config.lane, one.copy_id, "dead", Target("other", "", ("other",)))
            for broker in self.broker.lanes
            if "dead" in broker.shard.vhost.queues
            for one in broker.shard.state.queues.named("dead").order.matching(lambda _copy: True)
        ]
        options: dict[str, Any] = self.chance.choice(
            [{"canary": 2}, {"stop_after": 1}, {"rate": 5}, {"action": "discard"}, {"rate": 1}]
        )
        if letters:
            self.redrives += 1
            fields: dict[str, Any] = {"id": f"r{self.redrives}", "seal": "s", "total": len(letters)}
            if "action" in options:
                letters = [msgspec.structs.replace(one, target=None) for one in letters]
            chosen = RedriveOptions(**options)
            command = Redrive(letters=tuple(letters), reason="x", options=chosen, **fields)
            self.broker.do(command)

    def control(self) -> None:
        """Pause, resume or cancel a redrive."""
        name = f"r{self.chance.randrange(self.redrives + 1)}"
        actions: list[RedriveAction] = ["pause", "resume", "cancel"]
        action = self.chance.choice(actions)
        self.broker.do(ControlRedrive(id=name, action=action, reason="y"))

    def edit(self) -> None:
        """Publish a version of a letter."""
        self.broker.publish("", f"{VERSION_KEY}{self.chance.randrange(2):064x}", "new" * 2)


def shared(shard):
    """What all lanes must have alike."""
    settings = [shard.vhost.settings(queue) for queue in shard.vhost.queues.values()]
    return shard.vhost.definitions(), settings, shard.state.channels.count()


def moved(events):
    """What the loss of channels did; numbers of new copies depend on channels without events."""
    first = events.first_seq
    return sorted(
        (kind, queue, min(copy_id, first), *more) for kind, queue, copy_id, *more in seen(events)
    )


def held(shard):
    """What is in the queues; the order of held copies is not known, nor numbers of new ones."""
    first = shard.events.first_seq
    return {
        name: (
            sorted((min(copy_id, first), *more[:4], more[5:]) for copy_id, *more in copies),
            counts,
        )
        for name, (copies, counts) in contents(shard).items()
    }


def redrives_of(shard, count):
    """How the redrives ended on a lane: status, and letters moved, skipped, parked."""
    found = [shard.state.redrives.named(f"r{number}") for number in range(1, count + 1)]
    assert not any(isinstance(one, OpenRecord) for one in found)
    return [one and (one.status, one.total, one.moved, one.skipped, one.parked) for one in found]


def versions_of(shard):
    versions = Versions(shard.state.context)
    found = [versions.find(f"{number:064x}") for number in range(2)]
    return [one and (one.offset, one.size) for one in found]


def rebuilt_stores(recording, lanes):
    tables = Tables(recording.root)
    detail = detail_of({("/", lane): one for lane, one in enumerate(lanes)})
    known = known_shards(tables, lanes[HOME].config.compat, detail)
    tables.close()
    stores = []
    for lane, broker in enumerate(lanes):
        stores.append(MemoryStore())
        stores[-1].values.update(rebuild_shard(known["/", lane], broker.config))
    return stores


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_rebuilt_lanes_equal_the_lost_ones_and_each_other_time_and_again(tmp_path, seed):
    play = LanedPlay(seed)
    lanes = play.broker.lanes
    recording = Recording(tmp_path, *lanes)
    writer = SnapshotWriter(recording.place)
    for number in range(3):
        play.steps(play.chance.randrange(40, 90))
        recording.commit()
        if (seed + number) % 2:
            writer.write()
        lost = [recovered(one, copy.deepcopy(one.store)) for one in lanes]

        stores = rebuilt_stores(recording, lanes)

        again = [recovered(one, copy.deepcopy(its)) for one, its in zip(lanes, stores, strict=True)]
        assert [moved(one.events) for one in again] == [moved(one.events) for one in lost]
        assert [held(one) for one in again] == [held(one) for one in lost]
        count = play.redrives
        assert [redrives_of(one, count) for one in again] == [
            redrives_of(one, count) for one in lost
        ]
        assert [versions_of(one) for one in again] == [versions_of(one) for one in lost]
        assert [shared(one) for one in again] == [shared(lost[HOME])] * LANES
        play.broker.reopen(stores)
    recording.commit()
    tables = Tables(recording.root)
    assert (list_channels(tables), list_consumers(tables)) == ([], [])
    assert {row["status"] for row in list_redrives(tables)} <= {"finished", "cancelled"}
    recording.close()


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("late", range(LANES))
@pytest.mark.parametrize("kind", [{"exclusive": True}, {"auto_delete": True}, {"expires": 50}])
def test_a_queue_that_one_lane_has_already_deleted_is_deleted_on_all(tmp_path, kind, late, closed):
    """The lanes' timers tick in batches of their own."""
    broker = LanedBroker()
    recording = Recording(tmp_path, *broker.lanes)
    if "expires" not in kind:
        broker.do(commands.OpenChannel(channel="c0", lease_ms=50))
    broker.do(commands.DeclareQueue(queue=a_queue("own", **kind), channel="c0"))
    if "expires" not in kind:
        broker.consume("own", "tag", prefetch=2, channel="c0")
    for body in ("even", "odd", "another", "", "four"):
        broker.publish("", "own", body)
    for lane in broker.lanes:
        if lane.config.lane != late:
            Broker.at(lane, 60)
    recording.commit()
    assert [len(lane.shard.vhost.queues) for lane in broker.lanes].count(0) == LANES - 1
    if closed:
        SnapshotWriter(recording.place).write()

    broker.reopen(rebuilt_stores(recording, broker.lanes))

    if "expires" in kind and late == HOME:  # nobody knows when it was last used
        assert [shared(lane.shard) for lane in broker.lanes] == [shared(broker.shard)] * LANES
        broker.at(120)
    recording.commit()
    assert [[*lane.shard.vhost.queues] for lane in broker.lanes] == [[]] * LANES
    assert [*broker.lanes[late].shard.state.channels.numbers()] == []
    tables = Tables(recording.root)
    assert balance(tables).findings == []
    rebuilt_stores(recording, broker.lanes)


@pytest.mark.parametrize("closed", [False, True])
def test_a_large_queue_that_was_being_deleted_is_deleted(tmp_path, monkeypatch, closed):
    monkeypatch.setattr(step_size, "MAX_AT_ONCE", 4)
    broker = LanedBroker()
    recording = Recording(tmp_path, *broker.lanes)
    broker.queue("large", queue_type="quorum")
    broker.queue("stays")
    for number in range(40):
        broker.publish("", "large", "even" if number % 2 else "odd")
    broker.do(commands.DeleteQueue(queue="large"))
    recording.commit()
    if closed:
        SnapshotWriter(recording.place).write()
        recording.commit()

    broker.reopen(rebuilt_stores(recording, broker.lanes))
    broker.at(10_000)
    recording.commit()

    assert [[*lane.shard.vhost.queues] for lane in broker.lanes] == [["stays"]] * LANES
    assert [lane.shard.state.resident() for lane in broker.lanes] == [(0, 0)] * LANES
    gone = sum(row.kind is Kind.DELETED for lane in broker.lanes for row in lane.rows)
    assert (gone, balance(Tables(recording.root)).findings) == (40, [])
