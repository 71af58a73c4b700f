"""Settling by AMQP's delivery tags, as clients of AMQP do.

A tag that is not unacked on the channel is a channel error, unlike a ref (`settlement.py`). The tag
of a delivery whose queue was deleted is known, and settles nothing (R-SET-10).
"""

from streaming.broker.channels.channel import Channel
from streaming.broker.commands import Settle, SettleOutcome
from streaming.broker.events import Actor
from streaming.broker.handlers.access import Result
from streaming.broker.handlers.settlement import (
    Taken,
    ack,
    ack_run,
    finish_settling,
    reject,
    requeue,
    without_tombstones,
)
from streaming.broker.lanes import refuse_on_lanes
from streaming.broker.message import NEVER
from streaming.broker.reject_reasons import cause_of
from streaming.broker.shard_state import ShardState
from topology.refusals import Refusal, unknown_delivery


def settle(shard: ShardState, actor: Actor, command: Settle) -> Result:
    """Carry out the command; `Shard.settle` does the same without one."""
    channel = shard.channels.get(actor.user, command.channel)
    refusal = settle_on(
        shard,
        channel,
        command.tag,
        command.last,
        multiple=command.multiple,
        outcome=command.outcome,
        reason=command.reason,
    )
    return refusal or {}


def settle_on(
    shard: ShardState,
    channel: Channel | None,
    tag: int,
    last: int,
    *,
    multiple: bool,
    outcome: SettleOutcome,
    reason: str | None,
) -> Refusal | None:
    """Settle deliveries of a channel; see `Settle`."""
    refusal = refuse_on_lanes(shard.context.config, "delivery tags")
    if refusal is not None:
        return refusal
    if channel is None:
        return unknown_delivery(str(tag))
    if multiple:
        if tag and not channel.has_tag(tag):
            return unknown_delivery(str(tag))
        _settle(shard, channel.take_up_to(tag or NEVER), outcome, reason)
        return None
    while True:
        done = 0
        if last > tag and outcome == "ack":
            done = _ack_run(shard, channel, tag, last)
        if not done:
            taken = channel.take_tag(tag)
            if taken is None:
                return unknown_delivery(str(tag))
            _settle(shard, [taken], outcome, reason)
            done = 1
        tag += done
        if tag > last:
            return None


def _ack_run(shard: ShardState, channel: Channel, first: int, last: int) -> int:
    """Ack deliveries from a tag on that follow each other in their consumer; return how many."""
    consumer, number, count = channel.run_of_tags(first, last)
    done = 0 if consumer is None else ack_run(shard, consumer, number, number + count)
    channel.forget_tags(first, done)
    return done


def _settle(
    shard: ShardState, taken: list[Taken], outcome: SettleOutcome, reason: str | None
) -> None:
    live = without_tombstones(taken)
    if outcome == "ack":
        ack(shard, live)
    elif outcome == "requeue":
        requeue(shard, live, explicitly=True, cause=cause_of(reason))
    else:
        reject(shard, live, cause_of(reason))
    finish_settling(shard, taken)
