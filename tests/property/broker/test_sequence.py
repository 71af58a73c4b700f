"""The log of a sequenced vhost: any cuts and kills, epochs and channels; one outcome.

Some of its records are copied from inputs, and some have contents of letters.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.broker import commands
from streaming.broker.events import COPIED_CHANNEL, Actor
from streaming.broker.message import NO_FILE, Message, PublishedHeaders, publication_of
from streaming.broker.redrives.version_keys import VERSION_KEY, name_of_content
from streaming.broker.relocated_state import relocate
from streaming.broker.sequence import digest
from streaming.broker.sequence.log_fold import LogFold, Terms
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.broker.state.vhost_codec import VhostCache
from tests.property.broker.declarations import CHANNELS, CONNECTIONS, small
from tests.property.broker.playing import (
    CONFIG,
    START_MS,
    Played,
    keep,
    low_limit,
    said,
    small_portions,
    tiny_pages,
)
from tests.property.broker.scripts import Publish, scripts

TERMS = Terms(1, "rules")
SMALL = msgspec.structs.replace(CONFIG, administrators=("ann",), sequenced=True)


class Epoch(msgspec.Struct, frozen=True):
    """A writer begins."""


class Record(msgspec.Struct, frozen=True):
    """A record of a log: who writes it, and what.

    Attributes:
        is_late: it is of the writer before.
    """

    at_ms: int
    step: Publish | commands.Command | Epoch
    user: str | None
    channel: str
    is_late: bool


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """A script as a log; its channels are opened now and then, also behind an error or an epoch."""
    found: list[Record] = []
    at_ms = START_MS

    def add(step: Any, user: str | None, channel: str, *, is_late: bool = False) -> None:
        found.append(Record(at_ms, step, user, channel, is_late))

    def open_channels() -> None:
        for channel, connection in zip(CHANNELS, CONNECTIONS, strict=True):
            opening = commands.OpenChannel(channel=channel, connection=connection)
            add(opening, "ann", channel)

    add(Epoch(), None, "")
    open_channels()
    for step in draw(scripts()):
        at_ms += step.after_ms
        match draw(st.sampled_from([*[""] * 12, "epoch", "open", "open", "late", "content"])):
            case "epoch":
                add(Epoch(), None, "")
            case "open":
                open_channels()
            case "late":
                add(step.action, "ann", "c0", is_late=True)
            case "content":  # of a letter that is in no queue
                key = VERSION_KEY + name_of_content(draw(small))
                add(Publish("", key, 3, {}, None, 0, "", None), None, COPIED_CHANNEL)
        user = step.user or "ann"
        copied = draw(st.sampled_from(["", "", "", COPIED_CHANNEL]))
        if isinstance(step.action, Publish):
            add(step.action, user, copied + step.action.channel)
        else:
            add(step.action, user, copied + (getattr(step.action, "channel", None) or ""))
    return found


def fold_of(log: list[Record], store: MemoryStore, cache: VhostCache | None) -> LogFold:
    def published(message: Message) -> PublishedHeaders:
        publish = log[message.offset].step if message.offset < len(log) else None
        if not isinstance(publish, Publish):
            raise LookupError(f"no message {message.offset}")  # noqa: TRY004 - what the port raises
        return PublishedHeaders(publish.headers)

    shard = Shard(SMALL, store, cache=cache, published=published)
    return LogFold(shard, store, TERMS)


def take(fold: LogFold, offset: int, record: Record, epochs: list[int]) -> None:
    """Fold a record; `epochs` are those that have begun."""
    step, actor, at_ms = record.step, Actor(record.user, record.channel), record.at_ms
    if isinstance(step, Epoch):
        epochs.append(offset)
        fold.begin_epoch(at_ms, offset, TERMS)
        return
    epoch = epochs[-2] if record.is_late and len(epochs) > 1 else epochs[-1]
    counts = fold.begin(offset, epoch)
    if isinstance(step, Publish):
        message = Message(0, 0, offset, 0, offset, step.size)
        publication = publication_of(step.exchange, step.routing_key, step.properties, step.headers)
        if counts:
            fold.publish(at_ms, message, publication, step.flags, actor)
        else:
            fold.void(message, actor)
    elif counts and isinstance(step, commands.Settle):
        fold.settle(at_ms, actor, step.tag, step.last, multiple=step.multiple, outcome=step.outcome)
    elif counts:
        fold.command(at_ms, step, actor)


def play_log(
    log: list[Record],
    *,
    cuts: Container[int] = (),
    kills: Container[int] = (),
    takes: Container[int] = (),
    cache: VhostCache | None = None,
) -> tuple[Played, list[tuple[int, bytes]]]:
    """Fold a log; return also its digests.

    Args:
        cuts: offsets of the records after which a batch ends.
        kills: those of them whose batch runs twice: what came of it first is lost.
        takes: offsets of the records after which events and outbound records are taken.
    """
    played = Played()
    epochs: list[int] = []
    start = 0
    ends = [*(offset for offset in range(len(log) - 1) if offset in cuts), len(log) - 1]
    for end in ends:
        at_start, epochs_at_start = dict(played.store.values), list(epochs)
        for is_lost in (True, False) if end in kills else (False,):
            played.store.values = dict(at_start)
            epochs = list(epochs_at_start)
            fold = fold_of(log, played.store, cache)
            done = Played()
            for offset in range(start, end + 1):
                take(fold, offset, log[offset], epochs)
                if offset in takes:
                    first = fold.shard.events.first_seq
                    done.outbound += [said(out, first) for out in fold.take_outbound()]
                    keep(done, fold.take_events())
            first = fold.shard.events.first_seq
            batch = fold.finish()
            keep(done, batch.events)
            done.outbound += [said(out, first) for out in batch.outbound]
            if not is_lost:
                played.events += done.events
                played.outbound += done.outbound
        start = end + 1
    return played, fold_of(log, played.store, cache)._digest.record.recent  # noqa: SLF001


@given(log=logs(), data=st.data())
def test_a_log_has_one_outcome_wherever_it_is_cut_and_whoever_is_killed(log, data):
    last = len(log) - 1
    some = st.sets(st.integers(0, last))
    cuts = data.draw(some | st.just(set(range(last))), label="cuts")
    kills = data.draw(some, label="kills")
    takes = data.draw(some | st.just(set(range(last))), label="taken")
    cache = VhostCache() if data.draw(st.booleans(), label="cached") else None
    with pytest.MonkeyPatch.context() as patch, low_limit(), small_portions():
        patch.setattr(digest, "SEGMENT", 7)
        whole, digests = play_log(log)
        with tiny_pages():
            in_parts, digests_of_parts = play_log(
                log, cuts=cuts, kills=kills, takes=takes, cache=cache
            )

    assert in_parts.events == whole.events
    assert in_parts.outbound == whole.outbound
    assert digests_of_parts == digests
    assert digests


@given(log=logs(), data=st.data())
def test_a_state_whose_messages_are_stored_elsewhere_has_the_same_outcome(log, data):
    cuts = data.draw(st.sets(st.integers(0, len(log) - 1)), label="cuts")
    stored = stored_letters(log)
    with pytest.MonkeyPatch.context() as patch, low_limit(), small_portions():
        patch.setattr(digest, "SEGMENT", 7)
        with tiny_pages():
            whole, _digests = play_log(log, cuts=cuts)
            moved = Played()
            epochs: list[int] = []
            start = 0
            for end in [*sorted(cuts - {len(log) - 1}), len(log) - 1]:
                relocate(moved.store.values, lambda message: place(message, start))  # noqa: B023
                fold = fold_of(log, moved.store, None)
                for offset in range(start, end + 1):
                    take(fold, offset, log[offset], epochs)
                first = fold.shard.events.first_seq
                batch = fold.finish()
                for copy in batch.events.copies:
                    if copy is not None:
                        message = copy.message
                        if message.body_file == NO_FILE:  # a redrive names it, and has no place
                            assert (
                                *(message.topic_number, message.partition, message.offset),
                            ) in stored
                        else:
                            assert message.body_file == (start if message.offset < start else 0)
                keep(moved, batch.events)
                moved.outbound += [said(out, first) for out in batch.outbound]
                start = end + 1

    assert moved.events == whole.events
    assert moved.outbound == whole.outbound
    assert moved.store.values.keys() == whole.store.values.keys()


def stored_letters(log: list[Record]) -> set[tuple[int, int, int]]:
    """The messages of letters that redrives name as in no queue any more."""
    return {
        letter.stored.message
        for record in log
        if isinstance(record.step, commands.Redrive)
        for letter in record.step.letters
        if letter.stored is not None
    }


def place(message: Message, file: int) -> None:
    message.body_file = file
