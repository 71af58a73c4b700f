"""The manifest of a checkpoint, `dlx.json`: permanent numbers of topics and shards (D2, D3).

It is written before a batch runs, and also holds the versions and settings of the job.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from streaming.config import JobConfig
from streaming.config.types import join_key
from streaming.ledger.batch_detail import BatchDetail, BatchRow, KnownManifest
from streaming.pipeline.checkpoint.errors import (
    FixedSettingError,
    MissingVhostError,
)
from streaming.pipeline.reports import ShardStats
from streaming.pipeline.shard_block import FILES_KEY
from streaming.storage.json_file import read_json_file, write_json_file
from streaming.storage.location import AnyPath

FILE = "dlx.json"
FORMAT = 1

_REMEDY = (
    "Restore it from a backup, or let `dlx checkpoint rebuild` make a new checkpoint from the "
    "tables"
)

_C1, _C2, _MASK = 0xCC9E2D51, 0x1B873593, 0xFFFFFFFF
_SPARK_SEED = 42


class Rebuilt(msgspec.Struct, frozen=True):
    """What a rebuilt checkpoint knows better than the last batch row, which an older one wrote.

    Attributes:
        batch_id: the last batch at that time; a later one has its own row.
        detail: replaces the detail of its row.
    """

    batch_id: int
    detail: BatchDetail


class Manifest(msgspec.Struct):
    """The content of `dlx.json`.

    Attributes:
        topics: `CLUSTER_ID/TOPIC_ID` -> number.
        topic_names: `CLUSTER_ID/TOPIC_ID` -> the topic's name when it got its number.
        shards: `LANE VHOST` -> grouping key.
        outcome_hash: hash of the settings that can change a result, as of the last start.
        outcome_settings: those settings.
        constants: what else a replay depends on.
        job_id: identifies the job in its heartbeats.
        rebuilt: what replaces the last batch row after the checkpoint was rebuilt.
        outbound_from: grouping key -> the least number of an outbound record; of shards of which a
            batch was dropped that may have sent records.
    """

    format: int = FORMAT
    shuffle_partitions: int = 0
    core_version: int = 0
    wire_version: int = 0
    topics: dict[str, int] = {}
    topic_names: dict[str, str] = {}
    shards: dict[str, int] = {}
    outcome_hash: str = ""
    outcome_settings: dict[str, Any] = {}
    constants: dict[str, str] = {}
    job_id: str = ""
    rebuilt: Rebuilt | None = None
    outbound_from: dict[int, int] = {}

    @property
    def versions(self) -> str:
        """The versions, for an error message."""
        return f"format {self.format}, core {self.core_version}, wire {self.wire_version}"

    def known(self) -> KnownManifest:
        """Return what a batch row stores of it."""
        return msgspec.convert(self, KnownManifest, from_attributes=True)

    def last_detail(self, last: BatchRow | None) -> BatchDetail:
        """Return the detail of the last batch row; after a rebuild, with what has changed."""
        if last is None:
            return BatchDetail()
        if self.rebuilt is not None and self.rebuilt.batch_id == last.batch_id:
            return self.rebuilt.detail
        return last.detail

    def topic_number(self, identity: str, name: str) -> int:
        """Return the number of a topic; a new topic gets the next number."""
        if identity not in self.topics:
            self.topics[identity] = len(self.topics) + 1
            self.topic_names[identity] = name
        return self.topics[identity]

    def shard_key(self, vhost: str, lane: int) -> int:
        """Return the grouping key of a shard; a new shard gets a new key.

        Keys are chosen so that shards spread evenly over the shuffle partitions.
        """
        name = f"{lane} {vhost}"
        if name not in self.shards:
            wanted = len(self.shards) % self.shuffle_partitions
            used = set(self.shards.values())
            key = FILES_KEY + 1
            while key in used or spark_partition(key, self.shuffle_partitions) != wanted:
                key += 1
            self.shards[name] = key
        return self.shards[name]

    def refuse_changed_front(self, settings: Mapping[str, Any]) -> None:
        """Refuse to let a log decide what inputs have decided so far, or the other way round.

        Args:
            settings: those that can change a result, as of this start.

        Raises:
            FixedSettingError: a vhost of this manifest was sequenced, and is not, or is now.
        """
        for name in self.shards:
            _lane, _space, vhost = name.partition(" ")
            path = f"{join_key('vhosts', vhost)}.sequenced"
            before = bool(self.outcome_settings.get(path))
            if settings.get(path, before) != before:
                raise FixedSettingError(
                    f"{path}: the checkpoint has {str(before).lower()}, and the messages of this "
                    "vhost came that way. Set it back; a new vhost can be the other kind"
                )

    def refuse_missing_shards(self, config: JobConfig, stats: ShardStats) -> None:
        """Refuse a configuration that would make messages unreachable.

        Raises:
            CheckpointError: a vhost has other lanes, or a vhost with messages is missing.
        """
        lanes: dict[str, int] = {}
        for name, shard in self.shards.items():
            _lane, _space, vhost = name.partition(" ")
            lanes[vhost] = lanes.get(vhost, 0) + 1
            messages, _size = stats.resident.get(shard, (0, 0))
            if messages and vhost not in config.vhosts:
                raise MissingVhostError(
                    f"vhosts: {vhost!r} is missing, but its queues have {messages} messages in "
                    "this checkpoint. Add it again; you can remove it once its queues are empty"
                )
        for vhost, settings in config.vhosts.items():
            known = lanes.get(vhost, settings.lanes)
            if known != settings.lanes:
                raise FixedSettingError(
                    f"vhosts.{vhost}.lanes: the checkpoint has {known} lanes, each with a part of "
                    f"the messages; this start has {settings.lanes}. Set it to {known}, or change "
                    "it by `dlx checkpoint rebuild --replace`"
                )


def read_manifest(checkpoint: AnyPath) -> Manifest | None:
    """Read the manifest of a checkpoint; None if it has none.

    Raises:
        DamagedFileError: it cannot be read.
    """
    return read_json_file(checkpoint / FILE, Manifest, _REMEDY)


def write_manifest(checkpoint: AnyPath, manifest: Manifest) -> None:
    """Replace the manifest of a checkpoint; create the checkpoint's folder."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    write_json_file(checkpoint / FILE, manifest)


def spark_partition(key: int, partitions: int) -> int:
    """Return the shuffle partition that Spark gives an int grouping key: murmur3, modulo."""
    mixed = key * _C1 & _MASK
    mixed = _rotated(mixed, 15) * _C2 & _MASK
    mixed = _SPARK_SEED ^ mixed
    mixed = (_rotated(mixed, 13) * 5 + 0xE6546B64) & _MASK
    mixed ^= 4
    mixed = (mixed ^ (mixed >> 16)) * 0x85EBCA6B & _MASK
    mixed = (mixed ^ (mixed >> 13)) * 0xC2B2AE35 & _MASK
    mixed ^= mixed >> 16
    signed = mixed - (1 << 32) if mixed & 0x80000000 else mixed
    return signed % partitions


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK
