"""Plays a script on a shard, in one batch or in many, and returns comparable results."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from streaming.broker import clock
from streaming.broker.channels import channel, deliveries
from streaming.broker.config import ShardConfig
from streaming.broker.dead_letters import planning
from streaming.broker.dead_letters.x_death import death_headers
from streaming.broker.events import Actor, Event, Events
from streaming.broker.message import (
    Envelope,
    Message,
    Publication,
    PublishedHeaders,
    publication_of,
)
from streaming.broker.outbound import AnswerOut, CancelOut, ConfirmOut, DeliveryOut, Outbound
from streaming.broker.queues import step_size, unfinished
from streaming.broker.shard import Shard
from streaming.broker.state import paged_fifo as pages
from streaming.broker.state import record_groups as records
from streaming.broker.state.store import MemoryStore
from streaming.broker.state.vhost_codec import VhostCache
from tests.property.broker.scripts import Publish, Step

START_MS = 1_600_000_000_000
CONFIG = ShardConfig(consumer_timeout_ms=60, dead_letter_retry_ms=25)
LIMIT = 60
"""The limit of dead letters of one message in one instant, in these tests."""


@contextmanager
def tiny_pages(page_copies: int = 2, page_bits: int = 1) -> Iterator[None]:
    """Pages of two copies and groups of two records, so that every path of the paging is used.

    What is stale is dropped whenever somebody may look for it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PAGE_COPIES", page_copies)
        patch.setattr(pages, "MIN_PAGE_COPIES", (page_copies + 1) // 2)
        patch.setattr(deliveries, "PAGE_BITS", page_bits)
        patch.setattr(records, "GROUP_BITS", page_bits)
        patch.setattr(records, "LARGE_BYTES", 90)
        patch.setattr(clock, "MIN_CROWD", -(1 << 30))
        patch.setattr(channel, "MIN_CROWD", -(1 << 30))
        yield


@contextmanager
def low_limit() -> Iterator[None]:
    """A cascade limit that small topologies can reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "MAX_DESCENDANTS", LIMIT)
        yield


@contextmanager
def small_portions() -> Iterator[None]:
    """Purges, deletions and deliveries of more than three copies continue later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_size, "MAX_AT_ONCE", 3)
        patch.setattr(unfinished, "CONTINUE_AFTER_MS", 2)
        patch.setattr(unfinished, "PORTIONS_AT_ONCE", 2)
        yield


class Watch:
    """An observer of a played script."""

    def after_step(self, shard: Shard, events: list[Event]) -> None:
        """Called after a step with the events of the batch so far."""

    def after_batch(self, events: list[Event]) -> None:
        """Called after a batch with its events."""


class Played:
    """The results of a script.

    Attributes:
        events, outbound: all events and outbound records, in comparable form.
        store: the state at the end.
    """

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.outbound: list[tuple[Any, ...]] = []
        self.store = MemoryStore()
        self.now_ms = START_MS


def play(
    script: list[Step],
    config: ShardConfig = CONFIG,
    *,
    cuts: Container[int] = (),
    takes: Container[int] = (),
    cache: VhostCache | None = None,
    watch: Watch | None = None,
) -> Played:
    """Play a script.

    Args:
        cuts: indices of the steps after which a batch ends.
        takes: indices of the steps after which events and outbound records are taken.
        cache: shared by all batches; without one each batch has its own.
        watch: observes the script.
    """
    played = Played()

    def published(message: Message) -> PublishedHeaders:
        publish = script[message.offset].action
        if not isinstance(publish, Publish):  # a stored letter may name anything
            raise LookupError(f"no message {message.offset}")  # noqa: TRY004 - what the port raises
        return PublishedHeaders(publish.headers)

    shard = Shard(config, played.store, now_ms=START_MS, cache=cache, published=published)
    actors: dict[tuple[str | None, str], Actor] = {}
    publications: dict[str, Publication] = {}  # as a worker interns them
    for index, step in enumerate(script):
        played.now_ms += step.after_ms
        action = step.action
        if isinstance(action, Publish):
            actor = actors.setdefault(
                (action.user, action.channel), Actor(action.user, action.channel)
            )
            publication = publication_of(
                action.exchange, action.routing_key, action.properties, action.headers
            )
            publication = publications.setdefault(repr(publication), publication)
            message = Message(0, 0, index, 0, index, action.size)
            shard.publish(played.now_ms, message, publication, action.flags, actor)
        else:
            channel = getattr(action, "channel", None) or ""
            actor = actors.setdefault((step.user, channel), Actor(step.user, channel))
            shard.command(played.now_ms, action, actor)
        if watch is not None:
            watch.after_step(shard, list(shard.events.rows()))
        if index in takes:
            first = shard.events.first_seq
            played.outbound += [said(out, first) for out in shard.take_outbound()]
            keep(played, shard.take_events())
        if index in cuts:
            _end(shard, played, watch)
            shard = Shard(
                config, played.store, now_ms=played.now_ms, cache=cache, published=published
            )
    _end(shard, played, watch)
    return played


def _end(shard: Shard, played: Played, watch: Watch | None) -> None:
    first = shard.events.first_seq
    batch = shard.finish()
    if watch is not None:
        watch.after_batch(list(batch.events.rows()))
    keep(played, batch.events)
    played.outbound += [said(out, first) for out in batch.outbound]


def keep(played: Played, events: Events) -> None:
    """Add events to what was played."""
    played.events += [_plain(event, events) for event in events.rows()]
    played.events += [
        ("death", events.first_seq + row, queue, plan.reason, outcome, to, plan.cycles)
        for row, _copy, queue, plan, outcome, to in events.deaths()
    ]
    played.events.sort(key=lambda entry: (entry[1], entry[0]))


def _plain(event: Event, events: Events) -> tuple[Any, ...]:
    copy = event.copy
    row = event.seq - events.first_seq
    message, envelope = events.messages.get(row, (None, None))
    what = None
    if copy is not None:
        message, envelope = copy.message, copy.envelope
        what = (copy.copy_id, copy.parent_copy_id, copy.deadline_ms)
    return (
        "event",
        event.seq,
        event.at_ms,
        event.kind.name,
        event.queue,
        what,
        None if message is None else message.offset,
        None if envelope is None else _letter(envelope),
        event.number,
        event.user,
        event.channel,
        event.detail,
    )


def _letter(envelope: Envelope) -> tuple[Any, ...]:
    return (
        envelope.exchange,
        envelope.routing_keys,
        envelope.bcc,
        repr(death_headers(envelope)),
        envelope.cc,
        envelope.given_x_death,
        envelope.dropped,
        envelope.expiration,
        envelope.ttl_ms,
        envelope.priority,
        envelope.rerouted,
    )


def said(out: Outbound, first: int) -> tuple[Any, ...]:
    """An outbound record in comparable form; `first` is the number of the batch's first event."""
    if isinstance(out, DeliveryOut | ConfirmOut):
        plain = msgspec.structs.asdict(out)
    else:
        plain = out._asdict()
    plain["row"] += first
    if isinstance(out, DeliveryOut):
        plain["copy"] = (out.copy.copy_id, out.copy.message.offset)
    elif isinstance(out, AnswerOut):
        plain["refusal"] = None if out.refusal is None else msgspec.structs.astuple(out.refusal)
    elif not isinstance(out, CancelOut):
        plain["message"] = out.message.offset
        if "envelope" in plain:
            plain["envelope"] = _letter(plain["envelope"])
    return (type(out).__name__, *plain.items())
