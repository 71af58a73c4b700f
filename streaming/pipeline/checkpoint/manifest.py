"""The numbers beside the checkpoint: topics and shards, given once and never changed (D2, D3).

`dlx.json` in the checkpoint's folder holds them with what the job was first started with. It is
written before a batch runs, whole or not at all.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from streaming.pipeline.checkpoint.json_file import read_kept
from streaming.pipeline.task.context import FILES_KEY

FILE = "dlx.json"
FORMAT = 1

_REMEDY = (
    "Restore it from a copy. Without it the checkpoint and its tables cannot be continued: move "
    "both away, or give the job new ones"
)

_C1, _C2, _MASK = 0xCC9E2D51, 0x1B873593, 0xFFFFFFFF
_SPARK_SEED = 42


class JobFile(msgspec.Struct):
    """What a checkpoint belongs to.

    Attributes:
        topics: `CLUSTER_ID/TOPIC_ID` -> number; `topic_names` the names when they were given.
        shards: `LANE VHOST` -> grouping key.
        outcome_hash: of the configuration that the last started job had.
        unfinished_hash: of the configuration that a batch may have been begun with.
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

    def topic_number(self, identity: str, name: str) -> int:
        """The number of a topic, given now if it is new."""
        if identity not in self.topics:
            self.topics[identity] = len(self.topics) + 1
            self.topic_names[identity] = name
        return self.topics[identity]

    def shard_key(self, vhost: str, lane: int) -> int:
        """The grouping key of a shard, given now if it is new.

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


def read_job_file(checkpoint: Path) -> JobFile | None:
    """The file of a checkpoint; None if it has none.

    Raises:
        DamagedFileError: it cannot be read.
    """
    return read_kept(checkpoint / FILE, JobFile, _REMEDY)


def write_job_file(checkpoint: Path, job_file: JobFile) -> None:
    """Put the file in place of the one before."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    path = checkpoint / FILE
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(job_file)))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def spark_partition(key: int, partitions: int) -> int:
    """The shuffle partition that Spark puts an int grouping key in: murmur3 of it, modulo."""
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
