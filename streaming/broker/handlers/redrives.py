"""Commands of redrives: what a user may move, and how an open redrive is controlled."""

from collections.abc import Iterator

from streaming.broker.commands import ControlRedrive, Redrive, RedriveVerdict
from streaming.broker.events import Actor
from streaming.broker.handlers.access import (
    Result,
    refuse_access,
    refuse_administration,
    vhost_name,
)
from streaming.broker.handlers.queues import usable_queue
from streaming.broker.redrives import records
from streaming.broker.redrives.records import ClosedRecord, OpenRecord
from streaming.broker.redrives.versions import refuse_edit
from streaming.broker.shard_state import ShardState
from topology.permissions import Need
from topology.refusals import Refusal, access_refused, internal_exchange, precondition_failed

NOT_FOUND = 404


def redrive(shard: ShardState, actor: Actor, command: Redrive) -> Result:
    """Receive letters of a sealed plan; the same id again changes nothing.

    A part that is refused ends the redrive, because it can never be complete.
    """
    known = shard.redrives.named(command.id)
    if known is not None and known.seal != command.seal:
        return precondition_failed(f"redrive '{command.id}' exists with another seal")
    if isinstance(known, ClosedRecord):
        return _answer(known)
    if known is not None and (known.is_complete or command.first < known.received):
        return _answer(known)
    if known is not None and actor.user != known.user:
        return access_refused(f"user '{actor.user}' may not add letters to redrive '{command.id}'")
    received = 0 if known is None else known.received
    if command.first > received:
        return precondition_failed(
            f"redrive '{command.id}': letters {received} to {command.first - 1} are missing"
        )
    if received + len(command.letters) > command.total:
        return precondition_failed(
            f"redrive '{command.id}' has more letters than the {command.total} that were sealed"
        )
    options = command.options if known is None else known.options
    if options.action == "restore" and any(letter.stored is None for letter in command.letters):
        return precondition_failed(f"redrive '{command.id}' restores a letter that is in a queue")
    if options.action != "redrive" and any(letter.edit is not None for letter in command.letters):
        return precondition_failed(f"redrive '{command.id}' edits a letter, but is no redrive")
    refusal = _refuse(shard, actor, command)
    if refusal is not None:
        if known is not None:
            shard.redrives.cancel(known, f"letters {command.first} and later: {refusal.text}")
        return refusal
    return _answer(shard.redrives.receive(command, actor.user))


def control(shard: ShardState, actor: Actor, command: ControlRedrive) -> Result:
    """Pause, resume or cancel a redrive; only its user and administrators may. Or ask for it."""
    known = shard.redrives.named(command.id)
    if known is None:
        name = vhost_name(shard)
        return Refusal(NOT_FOUND, f"NOT_FOUND - no redrive '{command.id}' in vhost '{name}'")
    if isinstance(known, ClosedRecord) or command.action == "status":
        return _answer(known)
    forbidden = _refuse_control(shard, actor, known, command.action)
    if forbidden is not None:
        return forbidden
    if command.action == "cancel":
        shard.redrives.cancel(known, command.reason)
    elif command.action == "pause":
        if known.status in {records.RECEIVING, records.RUNNING}:
            shard.redrives.pause(known, command.reason)
    elif known.status in {records.PAUSED, records.STOPPED}:
        shard.redrives.resume(known, command.reason)
    return _answer(known)


def verdict(shard: ShardState, actor: Actor, command: RedriveVerdict) -> Result:
    """Do what the lanes agreed on; the job says so in the name of the redrive's user."""
    known = shard.redrives.named(command.id)
    if isinstance(known, OpenRecord):
        forbidden = _refuse_control(shard, actor, known, command.verdict)
        if forbidden is not None:
            return forbidden
        shard.redrives.obey(known, command)
    return {}


def _refuse_control(
    shard: ShardState, actor: Actor, record: OpenRecord, what: str
) -> Refusal | None:
    """403 unless it is the user of the redrive, or an administrator."""
    if actor.user == record.user:
        return None
    act = f"{what} redrive '{record.id}', which user '{record.user}' approved,"
    return refuse_administration(shard, actor, act)


def _answer(record: OpenRecord | ClosedRecord) -> dict[str, object]:
    return {
        "status": record.status,
        "total": record.total,
        "moved": record.moved,
        "skipped": record.skipped,
        "parked": record.parked,
    }


def _refuse(shard: ShardState, actor: Actor, command: Redrive) -> Refusal | None:
    """Refuse what a get of the letters and a publish to their targets would be refused.

    Nobody can check where a letter was that is in no queue any more: only administrators may
    publish it again.
    """
    forbidden = refuse_access(shard, actor, sorted(set(_needs(command))))
    if forbidden is not None:
        return forbidden
    if any(letter.edit is not None for letter in command.letters):
        forbidden = refuse_edit(shard.context.config, actor.user)
        if forbidden is not None:
            return forbidden
    if any(letter.stored is not None for letter in command.letters):
        act = "publish letters again that are in no queue"
        forbidden = refuse_administration(shard, actor, act)
        if forbidden is not None:
            return forbidden
    vhost = shard.context.vhost
    for name in sorted({letter.queue for letter in command.letters}):
        if name in vhost.queues:
            queue = usable_queue(shard, actor, name, None)
            if isinstance(queue, Refusal):
                return queue
    for letter in command.letters:
        if letter.target is not None and letter.target.queue is None:
            exchange = vhost.router.exchanges.get(letter.target.exchange)
            if exchange is not None and exchange.internal:
                return internal_exchange(exchange.name, vhost_name(shard))
    return None


def _needs(command: Redrive) -> Iterator[Need]:
    for letter in command.letters:
        yield ("read", "queue", letter.queue)
        if letter.target is not None:
            exchange = "" if letter.target.queue is not None else letter.target.exchange
            yield ("write", "exchange", exchange)
