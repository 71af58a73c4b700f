"""Parsing of command records in the first stage: the shards a command is for, or its fault."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from streaming.broker.commands import Command, Tick
from streaming.broker.lanes import ALONE, Answering, on_each_lane
from streaming.pipeline.rows.quarantine import Faults
from streaming.protocol.addressing import served_by_front
from streaming.protocol.command_codec import encode_command
from streaming.protocol.copied_records import not_copied
from streaming.protocol.record_headers import CommandRecord, MalformedRecordError, command_record

SEQUENCED: Final = "sequenced_vhost"
"""The cause of the quarantine of a record for a sequenced vhost that no front copies."""

_COLUMNS = ("partition", "offset", "at_ms", "dlx_op", "dlx_vhost", "value")


class CommandRow(NamedTuple):
    """A valid command, as the shard with the grouping key `key` executes it."""

    partition: int
    offset: int
    at_ms: int
    value: bytes
    channel: str
    key: int
    answering: Answering = ALONE


def read_commands(
    rows: pa.RecordBatch,
    vhosts: Mapping[str, tuple[int, ...]],
    sequenced: Collection[int] = (),
    *,
    copied: bool = False,
    unreadable: Sequence[bool] = (),
) -> tuple[list[CommandRow], Faults]:
    """Parse records with `dlx-op`: the valid commands, and the faulty rows with their faults.

    In a vhost of several lanes a command is one row for each lane that it concerns. In a sequenced
    vhost none has an effect here: the log has those that its front copies, others are faulty. A
    tick, with which the job wakes itself, is no fault there.

    Args:
        sequenced: the grouping keys of sequenced vhosts.
        copied: whether fronts copy records of this topic.
        unreadable: of each record, whether a front cannot read its headers; by default, it can.
    """
    commands: list[CommandRow] = []
    faults: Faults = []
    columns = [rows[name].to_pylist() for name in _COLUMNS]
    for index, (partition, offset, at_ms, op, vhost, value) in enumerate(
        zip(*columns, strict=True)
    ):
        try:
            record = command_record(op, vhost, value)
            keys = vhosts.get(record.vhost)
            if keys is None:
                raise unlisted_vhost(record.vhost)
            if keys[0] in sequenced and not isinstance(record.command, Tick):
                _refuse_unless_copied(record, copied=copied)
                if len(unreadable) and unreadable[index]:
                    raise unreadable_name()
        except MalformedRecordError as error:
            faults.append((index, error))
        else:
            if keys[0] in sequenced:
                continue
            command, channel = record.command, record.channel
            row = CommandRow(partition, offset, at_ms, encode_command(command), channel, keys[0])
            commands.extend([row] if len(keys) == 1 else _on_lanes(row, command, keys))
    return commands, faults


def unlisted_vhost(vhost: str) -> MalformedRecordError:
    """Return the fault of a record for a vhost that the job does not have."""
    return MalformedRecordError("unlisted_vhost", f"this job has no vhost {vhost!r}")


def sequenced_vhost(vhost: str) -> MalformedRecordError:
    """Return the fault of a record for a vhost whose log only the AMQP front writes."""
    return MalformedRecordError(SEQUENCED, served_by_front(vhost))


def unreadable_name() -> MalformedRecordError:
    """Return the fault of a record for a sequenced vhost that no front can read."""
    return MalformedRecordError("not_utf8", "a name of a header is not UTF-8: no front can read it")


def _refuse_unless_copied(record: CommandRecord, *, copied: bool) -> None:
    """Raise a fault unless a front copies the command into the log of its vhost."""
    if not copied:
        raise sequenced_vhost(record.vhost)
    why = not_copied(record.vhost, record.command)
    if why is not None:
        raise MalformedRecordError(SEQUENCED, why)


def _on_lanes(row: CommandRow, command: Command, keys: tuple[int, ...]) -> list[CommandRow]:
    """Return what each lane executes."""
    turn = row.partition % len(keys)
    return [
        row._replace(
            value=row.value if part is command else encode_command(part),
            key=keys[lane],
            answering=answering,
        )
        for lane, part, answering in on_each_lane(command, row.channel, turn, len(keys))
    ]
