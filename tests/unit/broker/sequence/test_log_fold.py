"""A fold of the log of a sequenced vhost: epochs, channels, terms, digests."""

import functools
import pickle

import pytest

from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor, Kind
from streaming.broker.message import CONFIRM, MANDATORY, Message, Publication
from streaming.broker.outbound import AnswerOut, ConfirmOut
from streaming.broker.sequence import digest
from streaming.broker.sequence.digest import DigestRecord, RunningDigest
from streaming.broker.sequence.log_fold import (
    NO_EPOCH,
    FoldsDifferError,
    LogFold,
    OtherTermsError,
    Terms,
)
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from tests import played_front
from tests.builders import a_queue
from tests.played_front import START_MS, USER, PlayedFront
from topology.declarations import Binding

TERMS = Terms(1, "rules")
ANN = Actor(USER, "c1")


@pytest.fixture
def front():
    """A front that has begun, with a channel and a queue."""
    played = PlayedFront()
    played.begin("one")
    played.open("c1")
    played.ask("c1", commands.DeclareQueue(queue=a_queue("work")))
    played.rows.clear()
    return played


def kinds(front: PlayedFront) -> list[str]:
    return [row.kind.name.lower() for row in front.rows]


def a_fold(store: MemoryStore | None = None, terms: Terms | None = TERMS) -> LogFold:
    kept = store or MemoryStore()
    return LogFold(Shard(ShardConfig(), kept), kept, terms)


def test_what_a_writer_writes_that_was_replaced_does_not_count(front):
    before = front.epoch
    front.begin("two")
    front.open("c1")
    front.rows.clear()

    front.publish("c1", "", "work", epoch=before)
    front.ask("c1", commands.Purge(queue="work"), epoch=before)
    front.settle(("c1", 1, "ack"), epoch=before)

    assert kinds(front) == ["void"]
    assert front.fold.next_offset == len(front.records)


def test_nothing_counts_before_the_first_epoch():
    fold = a_fold()

    assert not fold.begin(0, NO_EPOCH)
    assert not fold.begin(1, 0)
    fold.begin_epoch(START_MS, 2, TERMS)
    assert fold.begin(3, 2)


def test_an_epoch_ends_all_channels_and_returns_what_they_held(front):
    front.publish("c1", "", "work")
    front.consume("c1", "work")
    front.rows.clear()

    front.begin("two")

    assert "requeued" in kinds(front)
    front.rows.clear()
    front.publish("c1", "", "work")
    assert kinds(front) == ["void"]


def test_what_was_sent_behind_an_error_has_no_effect(front):
    front.publish("c1", "nowhere", "")  # 404 closes the channel
    front.rows.clear()
    front.told.clear()

    front.publish("c1", "", "work", flags=CONFIRM)
    front.ask("c1", commands.DeclareQueue(queue=a_queue("other")))
    front.settle(("c1", 1, "ack"))

    assert kinds(front) == ["void"]
    assert front.told == []
    assert "other" not in front.fold.shard.vhost.queues


def test_what_was_copied_into_the_log_needs_no_open_channel(front):
    offset = front.publish("kafka:pub", "", "work")
    front.ask("kafka:a", commands.Purge(queue="work", channel="kafka:a"))
    front.publish("kafka:pub", "missing", "")
    front.publish("kafka:pub", "", "work")

    assert kinds(front) == ["enqueued", "purged", "publish_error", "enqueued"]
    assert front.rows[0].copy.message.offset == offset


def test_the_operator_and_time_need_no_channel(front):
    front.ask("", commands.DeclareQueue(queue=a_queue("short", message_ttl=50)), user=USER)
    front.publish("c1", "", "short")
    front.rows.clear()

    front.tick(50)
    front.fold.tick(front.at_ms - 1)  # time never goes back

    assert kinds(front) == ["died"]
    assert front.fold.shard.now_ms == front.at_ms


def test_time_passes_with_what_has_no_effect(front):
    front.at_ms += 5
    front.ask("unopened", commands.Purge(queue="work"))
    assert front.fold.shard.now_ms == front.at_ms
    front.at_ms += 5
    front.settle(("unopened", 1, "ack"))
    assert front.fold.shard.now_ms == front.at_ms


def test_a_publish_behind_the_timeout_of_its_channel_is_void():
    config = ShardConfig(sequenced=True, administrators=(USER,), consumer_timeout_ms=50)
    front = PlayedFront(config)
    front.begin("one")
    front.open("c1")
    front.ask("c1", commands.DeclareQueue(queue=a_queue("work")))
    front.consume("c1", "work")
    front.publish("c1", "", "work")
    front.rows.clear()

    front.at_ms += 60
    front.publish("c1", "", "work")

    assert kinds(front)[-1] == "void"
    assert "requeued" in kinds(front)
    assert front.fold.shard.now_ms == front.at_ms


def test_a_publish_that_is_void_moves_no_time():
    """Its writer was replaced, and its clock may be an hour ahead."""
    fold = a_fold()
    fold.begin_epoch(START_MS, 0, TERMS)

    assert not fold.begin(1, NO_EPOCH)
    before_ms = fold.shard.now_ms
    fold.void(Message(0, 0, 1, 0, 0, 2), ANN)

    assert fold.shard.now_ms == before_ms
    assert fold.shard.events.kinds[-1] == Kind.VOID


def test_a_refused_settlement_says_why_and_closes_the_channel(front):
    fold = front.fold
    fold.begin(100, front.epoch)
    refusal = fold.settle(START_MS, ANN, 7, 0, multiple=False, outcome="ack")

    assert refusal is not None
    assert refusal.code == 406
    front.rows.clear()
    front.publish("c1", "", "work")
    assert kinds(front)[-1] == "void"


def test_a_fold_goes_on_where_it_has_rested(front):
    store = MemoryStore()
    fold = a_fold(store)
    fold.begin_epoch(START_MS, 3, TERMS)
    assert fold.begin(4, 3)
    fold.command(START_MS, commands.OpenChannel(channel="c1"), ANN)
    batch = fold.finish()
    assert [type(out) for out in batch.outbound] in ([], [AnswerOut])

    again = a_fold(store)

    assert (again.next_offset, again.epoch) == (5, 3)
    assert again.begin(5, 3)
    again.publish(START_MS, Message(0, 0, 5, 0, 0, 1), Publication("", "nowhere"), CONFIRM, ANN)
    [confirm] = again.take_outbound()
    assert isinstance(confirm, ConfirmOut)
    assert Kind.VOID not in again.take_events().kinds


# -- terms


def test_an_epoch_on_other_terms_is_refused_before_it_does_anything():
    fold = a_fold()
    fold.begin_epoch(START_MS, 0, TERMS)
    fold.begin(1, 0)

    with pytest.raises(OtherTermsError) as caught:
        fold.begin_epoch(START_MS, 2, Terms(2, "rules"))

    assert (fold.next_offset, fold.epoch) == (2, 0)
    assert "written, in the epoch of 2, with broker core 2; this program has 1. Upgrade" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (Terms(0, "rules"), "broker core 0; this program has 1. Let the version that wrote them"),
        (Terms(1, "more"), "other settings that decide outcomes (their hash is more there"),
    ],
)
def test_the_rest_of_an_epoch_is_folded_on_its_terms_or_not_at_all(written, words):
    store = MemoryStore()
    fold = a_fold(store, written)
    fold.begin_epoch(START_MS, 0, written)
    fold.begin(1, 0)
    fold.finish()

    other = a_fold(store)
    with pytest.raises(OtherTermsError) as caught:
        other.begin(2, 0)

    assert words in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - ours
    assert not other.begin(2, 99)  # what does not count is on no terms
    other.begin_epoch(START_MS, 3, TERMS)
    assert other.begin(4, 3)


def test_a_fold_without_terms_takes_any():
    fold = a_fold(terms=None)
    fold.begin_epoch(START_MS, 0, Terms(7, "any"))
    fold.begin_epoch(START_MS, 1)
    assert fold.begin(2, 1)


# -- digests


@pytest.fixture
def short_segments(monkeypatch):
    """A segment has four offsets."""
    monkeypatch.setattr(digest, "SEGMENT", 4)


def traffic(front: PlayedFront) -> None:
    """One of everything that a digest covers."""
    front.begin("one")
    front.open("c1")
    front.ask("c1", commands.DeclareQueue(queue=a_queue("dead")))
    front.ask(
        "c1",
        commands.DeclareQueue(
            queue=a_queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
        ),
    )
    front.consume("c1", "work")
    for _ in range(4):
        front.publish("c1", "", "work", flags=CONFIRM)
    front.publish("c1", "", "nowhere", flags=MANDATORY)
    front.settle(*(("c1", tag, "reject") for tag in front.tags("c1")))
    front.open("c2")
    front.publish("c2", "missing", "")
    front.publish("c2", "", "work")
    front.ask("c1", commands.Cancel(label="work"))
    front.ask("c1", commands.DeleteQueue(queue="missing"))
    front.ask("c1", commands.Bind(binding=Binding("none", "work")))
    for _ in range(5):
        front.tick(1)


@pytest.mark.usefixtures("short_segments")
def test_equal_folds_have_equal_digests_and_another_event_changes_all_from_there_on():
    one, two, other = PlayedFront(), PlayedFront(), PlayedFront()
    traffic(one)
    traffic(two)
    other.at_ms += 1
    traffic(other)

    boundary, last = one.fold.last_digest or (0, b"")
    assert boundary > 12
    assert two.fold.digest_of(boundary) == last
    assert other.fold.digest_of(boundary) != last
    assert one.fold.digest_of(3) is None


@pytest.mark.usefixtures("short_segments")
def test_a_wrong_digest_names_the_range(front):
    fold = PlayedFront()
    traffic(fold)
    here = fold.fold.digest_of(8)
    assert here is not None

    fold.fold.compare(8, here)
    fold.fold.compare(4_000, b"unknown: too old, or not there yet")
    assert fold.fold.compared == (4, 8)
    with pytest.raises(FoldsDifferError) as caught:
        fold.fold.compare(8, b"\1\2")

    assert str(caught.value) == (
        f"two folds of the log differ between offset 4 and 8: {here.hex()} here, 0102 in the log"
    )
    assert front.fold.last_digest is None


def all_of_it(front: PlayedFront) -> None:
    """One of everything that a wide digest covers besides: traffic, and what follows."""
    traffic(front)
    front.open("c3")
    front.ask("c3", commands.DeclareQueue(queue=a_queue("mine")))
    front.consume("c3", "mine")
    front.publish("c3", "", "mine")
    front.ask("c3", commands.DeleteQueue(queue="mine"))
    front.publish("c3", "", "nowhere", flags=MANDATORY)
    for _ in range(8):
        front.tick(1)


@pytest.mark.usefixtures("short_segments")
def test_a_wide_digest_does_not_depend_on_when_events_are_taken():
    taken = PlayedFront()
    all_of_it(taken)
    whole = PlayedFront()
    whole.hear = lambda: None  # type: ignore[method-assign]
    whole.tags = lambda channel: list(range(1, 5))  # type: ignore[method-assign]
    all_of_it(whole)

    boundary, _digest = taken.fold.last_digest or (0, b"")
    for each in range(4, boundary + 1, 4):
        assert whole.fold.wide_digest_of(each) == taken.fold.wide_digest_of(each) != b""


def deliver_to(front: PlayedFront, channel: str) -> None:
    """Deliver a message to one of two channels: nothing else differs."""
    front.begin("one")
    front.ask("", commands.DeclareQueue(queue=a_queue("work")))
    for name in ("c1", "c2"):
        front.open(name)
    front.consume(channel, "work")
    front.publish("c1", "", "work")
    for _ in range(5):
        front.tick(1)


@pytest.mark.usefixtures("short_segments")
def test_who_gets_a_delivery_is_in_the_wide_digest_only():
    one, other = PlayedFront(), PlayedFront()
    deliver_to(one, "c1")
    deliver_to(other, "c2")

    assert one.fold.digest_of(8) == other.fold.digest_of(8)
    wide = other.fold.wide_digest_of(8)
    assert one.fold.wide_digest_of(8) != wide
    here = one.fold.digest_of(8)
    assert here is not None
    with pytest.raises(FoldsDifferError, match=f"{wide.hex()} in the log"):
        one.fold.compare(8, here, wide)
    one.fold.compare(8, here)  # of an earlier version


@pytest.mark.usefixtures("short_segments")
def test_a_wide_digest_does_not_depend_on_which_objects_name_a_channel(monkeypatch):
    """A fold that was loaded again has others than one that runs since the channel was opened."""
    other, same = PlayedFront(), PlayedFront()
    deliver_to(other, "c1")
    monkeypatch.setattr(played_front, "Actor", functools.cache(Actor))
    deliver_to(same, "c1")

    assert same.fold.wide_digest_of(8) == other.fold.wide_digest_of(8) != b""


@pytest.mark.usefixtures("short_segments")
def test_a_channel_may_have_had_any_number_of_consumers():
    front, again = PlayedFront(), PlayedFront()
    for each in (front, again):
        each.begin("one")
        each.ask("", commands.DeclareQueue(queue=a_queue("work")))
        each.open("c1")
        channel = each.fold.shard.state.channels.get("ann", "c1")
        assert channel is not None
        channel.next_consumer = 1 << 23
        each.consume("c1", "work")
        each.publish("c1", "", "work")
        for _ in range(5):
            each.tick(1)

    assert front.fold.wide_digest_of(8) == again.fold.wide_digest_of(8) != b""


@pytest.mark.usefixtures("short_segments")
def test_a_segment_that_an_earlier_version_began_has_no_wide_digest():
    told, happened = PlayedFront(), PlayedFront()
    running = RunningDigest(DigestRecord(8))
    for each in (told, happened):
        each.hear = lambda: None  # type: ignore[method-assign]
        each.tags = lambda channel: list(range(1, 5))  # type: ignore[method-assign]
        traffic(each)
    running.add_outbound(told.fold.shard.outbound)
    running.add_events(happened.fold.shard.events, 0)

    running.close(8, 0, 0, 0)
    assert running.wide_of(8) == b""
    running.close(12, 0, 0, 0)

    assert running.wide_of(12) != b""


@pytest.mark.usefixtures("short_segments")
def test_a_digest_does_not_depend_on_when_events_are_taken():
    """Rows without a copy, and refusals, are in the order of the events."""
    taken = PlayedFront()
    traffic(taken)  # takes the events of each record
    whole = PlayedFront()
    whole.hear = lambda: None  # type: ignore[method-assign]
    whole.tags = lambda channel: list(range(1, 5))  # type: ignore[method-assign]
    traffic(whole)

    assert whole.fold.last_digest == taken.fold.last_digest


def test_equal_folds_are_equal_in_short(front):
    other = PlayedFront()
    other.begin("one")
    other.open("c1")
    other.ask("c1", commands.DeclareQueue(queue=a_queue("work")))
    assert other.fold.in_short() == front.fold.in_short()

    front.publish("c1", "", "work")

    assert other.fold.in_short() != front.fold.in_short()
