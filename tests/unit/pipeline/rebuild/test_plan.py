"""What a rebuild says before it writes, and what it refuses."""

import pytest

from streaming.broker.commands import Redrive
from streaming.broker.config import CORE_VERSION
from streaming.broker.message import NEVER
from streaming.broker.outbound import OUTBOUND_STEP
from streaming.broker.rebuilt_shard import rebuild_shard
from streaming.broker.redrive_letters import Letter, RedriveOptions, Target
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.config import JobConfig
from streaming.config.job import JobSettings
from streaming.config.vhosts import VhostSettings
from streaming.pipeline.checkpoint.errors import (
    CheckpointInUseError,
    MissingVhostError,
    NewerVersionError,
)
from streaming.pipeline.checkpoint.manifest import Manifest, write_manifest
from streaming.pipeline.rebuild.from_log import FoldedState
from streaming.pipeline.rebuild.rebuild import (
    IntactCheckpointError,
    Rebuild,
    remove_half_written,
)
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.state.copies import LostStateError
from tests.builders import Broker
from tests.unit.queries.recording import Recording, apart

NO_OPTIONS = RedriveOptions()
OFFSETS = {"dlx.publishes": {"0": 4}, "dlx.commands": {"0": 9}}


def detail(manifest, **changed):
    return {
        "offsets": OFFSETS,
        "configuration": "other",
        "core_version": CORE_VERSION,
        "manifest": manifest.known(),
        "clocks": {1: (1_600_000_000_500, 12)},
        **changed,
    }


@pytest.fixture
def recording(tmp_path):
    """Three messages in a queue, one of them unacked; a batch row as a job writes it."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    recording.detail = detail(Manifest(shuffle_partitions=2, shards={"0 /": 1}, job_id="job"))
    broker.queue("work")
    for number in range(3):
        broker.publish("", "work", f"m{number}")
    broker.get("work", "g")
    recording.commit()
    yield recording
    recording.close()


def store_of(values):
    store = MemoryStore()
    store.values.update(values)
    return store


def work_on(recording, tmp_path, partitions=2, **vhosts):
    config = JobConfig(
        job=JobSettings(
            checkpoint_location=str(tmp_path / "checkpoints"),
            tables_location=recording.root,
        ),
        vhosts=vhosts or {"/": VhostSettings()},
    )
    return Rebuild(config, partitions)


def test_the_plan_says_what_will_be_ready_and_requeued_and_where_topics_continue(
    recording, tmp_path
):
    plan = work_on(recording, tmp_path).plan()

    [shard] = plan.shards
    assert (shard.ready, shard.unacked, shard.held, shard.channels) == (2, 1, 0, 1)
    assert (plan.batch_id, plan.spark_batch, plan.offsets) == (0, 0, OFFSETS)
    assert plan.half_written == {}
    [known] = plan.known.values()
    assert (known.now_ms, known.next_outbound) == (1_600_000_000_500, OUTBOUND_STEP)
    assert plan.manifest.job_id == "job"
    assert plan.manifest.shards == {"0 /": 1}
    last = plan.manifest.rebuilt.detail
    assert (last.resident, last.next_deadline_ms) == ({1: (3, 6)}, {1: 0})
    assert not (tmp_path / "checkpoints").exists()


def test_other_partitions_give_the_shards_other_keys(recording, tmp_path):
    plan = work_on(recording, tmp_path, partitions=5).plan()

    [key] = plan.known
    assert plan.manifest.shards == {"0 /": key}
    assert plan.manifest.rebuilt.detail.resident == {key: (3, 6)}


def test_a_batch_that_only_some_tables_have_is_removed_and_keeps_its_number(recording, tmp_path):
    recording.brokers[0].publish("", "work", "late")
    events = recording._ledger.writers["events"]  # noqa: SLF001 - a crash before its commit
    commit, events.commit_batch = events.commit_batch, lambda *_, **__: "skipped"
    recording.commit()
    events.commit_batch = commit
    plan = work_on(recording, tmp_path).plan()
    assert (plan.batch_id, plan.spark_batch, plan.half_written) == (0, 1, {"messages": 1})

    remove_half_written(recording.place, plan)

    tables = Tables(recording.root)
    tables.view("messages")
    assert tables.values("SELECT count(*), max(batch_id) FROM messages") == [(3, 0)]
    assert work_on(recording, tmp_path).plan().half_written == {}


def test_a_vhost_gets_more_lanes_and_its_messages_stay(recording, tmp_path):
    plan = work_on(recording, tmp_path, **{"/": VhostSettings(lanes=3)}).plan()

    assert [(each.lane, each.queues, each.ready) for each in plan.shards] == [
        (0, 1, 2),
        (1, 1, 0),
        (2, 1, 0),
    ]
    assert set(plan.manifest.shards) == {"0 /", "1 /", "2 /"}
    assert any("3 lanes instead of 1" in note for note in plan.notes)


@pytest.fixture
def two_lanes(tmp_path):
    """A message in a queue of lane 1; lane 0 is empty."""
    brokers = Broker(lanes=2), apart(Broker(lanes=2, lane=1), 100)
    recording = Recording(tmp_path / "tables", *brokers)
    recording.detail = detail(Manifest(shuffle_partitions=2, shards={"0 /": 1, "1 /": 2}))
    for broker in brokers:
        broker.queue("work")
    brokers[1].publish("", "work", "m")
    recording.commit()
    yield recording
    recording.close()


def test_a_lane_with_messages_cannot_go(two_lanes, tmp_path):
    with pytest.raises(LostStateError, match=r"lane 1 has 1 messages.* until consumers"):
        work_on(two_lanes, tmp_path).plan()


def test_an_empty_lane_goes_and_continues_its_numbers_when_it_comes_back(two_lanes, tmp_path):
    lane = two_lanes.brokers[1]
    lane.drain("work")
    two_lanes.commit()
    fewer = work_on(two_lanes, tmp_path).plan()
    two_lanes.detail = detail(fewer.manifest)
    two_lanes.brokers[0].publish("", "nowhere", "later")
    two_lanes.commit()
    same = work_on(two_lanes, tmp_path).plan()
    more = work_on(two_lanes, tmp_path, **{"/": VhostSettings(lanes=2)}).plan()

    assert set(fewer.manifest.shards) == set(same.manifest.shards) == {"0 /"}
    assert [(each.lane, each.ready) for each in same.shards] == [(0, 0)]
    assert more.known[more.manifest.shards["1 /"]].next_seq == max(row.seq for row in lane.rows) + 1


def test_a_new_lane_is_like_the_others(recording, tmp_path):
    """It loses the same channels, auto-delete queues and redrives when the job starts."""
    broker = recording.brokers[0]
    broker.queue("brief", auto_delete=True)
    broker.consume("brief", "tag", channel="c1")
    for name, total in (("done", 1), ("open", 2)):
        letter = Letter(0, 999, "work", Target("brief", "", ("brief",)))
        options = RedriveOptions(ceiling=1)
        broker.do(
            Redrive(id=name, reason="x", seal="s", total=total, letters=(letter,), options=options)
        )
    recording.commit()

    plan = work_on(recording, tmp_path, **{"/": VhostSettings(lanes=3)}).plan()

    shards = [
        Shard(plan.configs[key], store_of(rebuild_shard(known, plan.configs[key])))
        for key, known in sorted(plan.known.items())
    ]
    assert [[*shard.vhost.queues] for shard in shards] == [["work"]] * 3
    assert [shard.state.channels.count() for shard in shards] == [0] * 3
    ended = [
        [getattr(shard.state.redrives.named(name), "status", "") for name in ("done", "open")]
        for shard in shards
    ]
    assert ended == [["finished", "cancelled"]] * 3


def test_a_lane_with_an_open_redrive_cannot_go(two_lanes, tmp_path):
    for broker in two_lanes.brokers:
        broker.drain("work")
        broker.do(Redrive(id="mend", reason="x", seal="s", total=2, letters=(), options=NO_OPTIONS))
    two_lanes.commit()

    with pytest.raises(LostStateError, match=r"redrive mend is open on lane 1"):
        work_on(two_lanes, tmp_path).plan()


def test_a_vhost_with_messages_cannot_go(recording, tmp_path):
    with pytest.raises(MissingVhostError):
        work_on(recording, tmp_path, other=VhostSettings()).plan()


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"resident": {1: (4, 8)}}, LostStateError),
        ({"core_version": CORE_VERSION + 1}, NewerVersionError),
    ],
)
def test_tables_that_do_not_know_enough_are_refused(recording, tmp_path, changed, error):
    recording.detail |= changed
    recording.brokers[0].publish("", "nowhere", "lost")
    recording.commit()

    with pytest.raises(error):
        work_on(recording, tmp_path).plan()


def test_tables_without_a_batch_are_refused(tmp_path):
    recording = Recording(tmp_path / "tables", Broker())

    with pytest.raises(QueryError):
        work_on(recording, tmp_path).plan()


def test_a_running_job_and_a_complete_checkpoint_are_refused(recording, tmp_path):
    work = work_on(recording, tmp_path)
    with work.locked(replace=False), pytest.raises(CheckpointInUseError):
        work_on(recording, tmp_path).locked(replace=True).__enter__()
    assert not (tmp_path / "checkpoints").exists()
    folder = tmp_path / "checkpoints"
    write_manifest(folder, Manifest())
    (folder / "metadata").write_text('{"id":"query"}')
    for name in ("commits", "state"):
        (folder / name).mkdir()
    (folder / "commits" / "3").touch()

    with pytest.raises(IntactCheckpointError):
        work.locked(replace=False).__enter__()

    with work.locked(replace=True):
        pass
    assert (folder / "metadata").exists()


@pytest.fixture
def sequenced(recording, monkeypatch):
    """The vhost of the recording follows a log, of which a fold is told to have come to this."""
    log = JobConfig(vhosts={"/": VhostSettings(sequenced=True)}).log_topics()["/"]
    recording.detail |= {"offsets": {**OFFSETS, log: {"0": 40}}}
    recording.brokers[0].publish("", "work", "m")
    recording.commit()
    came_to = {"next_seq": max(row.seq for row in recording.brokers[0].rows) + 1, "messages": 4}

    def fold_log_to(_config, manifest, shard, end):
        assert (manifest.job_id, shard.vhost, shard.sequenced, end) == ("job", "/", True, 40)
        return FoldedState(30, end, **came_to, entries={"header": b"state"})

    monkeypatch.setattr("streaming.pipeline.rebuild.plan.fold_log_to", fold_log_to)
    return came_to


SEQUENCED = {"/": VhostSettings(sequenced=True)}


@pytest.mark.usefixtures("sequenced")
def test_a_sequenced_vhost_is_what_its_log_came_to(recording, tmp_path):
    plan = work_on(recording, tmp_path, partitions=5, **SEQUENCED).plan()

    [key] = plan.folded
    assert (plan.folded, plan.known) == ({key: {"header": b"state"}}, {})
    [shard] = plan.shards
    assert (shard.ready, shard.unacked, shard.channels) == (3, 0, 0)
    [note] = [one for one in plan.notes if "follows its log" in one]
    assert "before offset 40 came to; 10 of them were folded again" in note
    assert "1 channels stay open, with 1 unacked messages" in note
    assert plan.manifest.rebuilt.detail.next_deadline_ms == {key: NEVER}


@pytest.mark.parametrize("changed", [{"next_seq": 3}, {"messages": 5}])
def test_a_log_that_came_to_something_else_than_the_tables_is_refused(
    recording, tmp_path, sequenced, changed
):
    sequenced |= changed

    with pytest.raises(LostStateError, match=r"came to \d+ events and \d messages.* the tables"):
        work_on(recording, tmp_path, **SEQUENCED).plan()


@pytest.mark.usefixtures("sequenced")
def test_a_vhost_cannot_become_an_ordinary_one(recording, tmp_path):
    with pytest.raises(LostStateError, match=r"vhosts./.sequenced: the tables have true"):
        work_on(recording, tmp_path).plan()


def test_a_vhost_cannot_become_a_sequenced_one(recording, tmp_path):
    with pytest.raises(LostStateError, match=r"vhosts./.sequenced: the tables have false"):
        work_on(recording, tmp_path, **SEQUENCED).plan()
