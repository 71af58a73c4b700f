"""The first stage's reading of commands, one by one: which shards each is for, or what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streaming.broker.lanes import BROADCAST_OPS
from streaming.protocol.headers import CommandRecord, MalformedRecordError, command_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from streaming.pipeline.rows.quarantine import Faults
    from streaming.pipeline.task.context import VhostTask

_COLUMNS = ("partition", "offset", "at_ms", "dlx_op", "dlx_vhost", "value")


class CommandRow(NamedTuple):
    """A command that was understood; `keys` are the grouping keys of the shards it is for."""

    partition: int
    offset: int
    at_ms: int
    value: bytes
    channel: str
    keys: tuple[int, ...]


def read_commands(
    rows: pa.RecordBatch, vhosts: Mapping[str, VhostTask]
) -> tuple[list[CommandRow], Faults]:
    """The commands among records with `dlx-op`, and the rows that are none, with what is wrong."""
    understood: list[CommandRow] = []
    bad: Faults = []
    columns = [rows[name].to_pylist() for name in _COLUMNS]
    for index, (partition, offset, at_ms, op, vhost, value) in enumerate(
        zip(*columns, strict=True)
    ):
        try:
            record = command_record(op, vhost, value)
            keys = _keys(record, partition, vhosts)
        except MalformedRecordError as error:
            bad.append((index, error))
        else:
            row = CommandRow(partition, offset, at_ms, record.value, record.channel, keys)
            understood.append(row)
    return understood, bad


def _keys(
    record: CommandRecord, partition: int, vhosts: Mapping[str, VhostTask]
) -> tuple[int, ...]:
    """Every lane for a broadcast, else the lane of the partition (D2)."""
    vhost = vhosts.get(record.vhost)
    if vhost is None:
        detail = f"vhost {record.vhost!r} is not one of this job's"
        raise MalformedRecordError("unlisted_vhost", detail)
    if str(record.command.__struct_config__.tag) in BROADCAST_OPS:
        return vhost.keys
    return (vhost.keys[partition % len(vhost.keys)],)
