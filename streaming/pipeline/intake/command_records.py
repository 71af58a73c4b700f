"""Parsing of command records in the first stage: the shards a command is for, or its fault."""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from streaming.broker.lanes import BROADCAST_OPS
from streaming.pipeline.rows.quarantine import Faults
from streaming.protocol.record_headers import CommandRecord, MalformedRecordError, command_record

_COLUMNS = ("partition", "offset", "at_ms", "dlx_op", "dlx_vhost", "value")


class CommandRow(NamedTuple):
    """A valid command; `keys` are the grouping keys of the shards that execute it."""

    partition: int
    offset: int
    at_ms: int
    value: bytes
    channel: str
    keys: tuple[int, ...]


def read_commands(
    rows: pa.RecordBatch, vhosts: Mapping[str, tuple[int, ...]]
) -> tuple[list[CommandRow], Faults]:
    """Parse records with `dlx-op`: the valid commands, and the faulty rows with their faults."""
    commands: list[CommandRow] = []
    faults: Faults = []
    columns = [rows[name].to_pylist() for name in _COLUMNS]
    for index, (partition, offset, at_ms, op, vhost, value) in enumerate(
        zip(*columns, strict=True)
    ):
        try:
            record = command_record(op, vhost, value)
            keys = _keys(record, partition, vhosts)
        except MalformedRecordError as error:
            faults.append((index, error))
        else:
            commands.append(
                CommandRow(partition, offset, at_ms, record.value, record.channel, keys)
            )
    return commands, faults


def unlisted_vhost(vhost: str) -> MalformedRecordError:
    """Return the fault of a record for a vhost that the job does not have."""
    return MalformedRecordError("unlisted_vhost", f"this job has no vhost {vhost!r}")


def _keys(
    record: CommandRecord, partition: int, vhosts: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...]:
    """Return every lane of the vhost for a broadcast, else the lane of the partition (D2)."""
    keys = vhosts.get(record.vhost)
    if keys is None:
        raise unlisted_vhost(record.vhost)
    if str(record.command.__struct_config__.tag) in BROADCAST_OPS:
        return keys
    return (keys[partition % len(keys)],)
