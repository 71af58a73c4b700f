"""What the row of kind `batch` says: one in `events` for every batch, written by the driver.

    a batch ends --BatchDetail--> column `detail`, JSON --> the next start, rebuild, balance, pages

The last one holds what the job needs to restart: offsets, resident copies, gate. It also holds
totals of the batch, so that rows removed later are noticed. docs/tables.md describes the members.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from streaming.broker.redrives.agreement import LaneNote

GateCause = Literal["off", "below", "between", "above", "memory"]


class GateState(msgspec.Struct, frozen=True):
    """The state of flow control's gate.

    Attributes:
        resident_bytes: bytes of resident messages.
        max_rows: the most publishes of the next batch.
        cause: what decided: flow control is off; resident messages are below, between or above the
            marks; or the memory of the job's processes is above its mark.
        process_bytes: resident set size of the job's processes; None if it is not measured.
    """

    resident_bytes: int
    max_rows: int
    cause: GateCause
    open: bool
    process_bytes: int | None = None


class KnownManifest(msgspec.Struct, frozen=True):
    """What a batch row knows of the checkpoint's manifest, in case it is lost."""

    topics: dict[str, int] = {}
    topic_names: dict[str, str] = {}
    shards: dict[str, int] = {}
    shuffle_partitions: int = 0
    job_id: str = ""


class TrafficSums(msgspec.Struct, frozen=True):
    """The totals since the first batch.

    Attributes:
        vhosts: by vhost and name.
        job: those that belong to no vhost.
        clients: vhost, lane, open channels and their users.
    """

    vhosts: dict[str, dict[str, int]] = {}
    job: dict[str, int] = {}
    clients: list[tuple[str, int, int, list[str | None]]] = []


class TruncatedRecords(msgspec.Struct, frozen=True):
    """Outbound records of the batch that were too large for their topics; the first are named."""

    count: int
    first: list[dict[str, Any]]


class BatchDetail(msgspec.Struct, frozen=True, kw_only=True):
    """The detail of a batch row. Shards are known by their grouping key.

    Attributes:
        offsets: topic -> partition -> where the batch ended.
        configuration: hash of the settings that affect results.
        resident: resident messages, and bytes of their bodies and state, by shard.
        next_deadline_ms: when the next timer of a shard is due.
        mean_bytes: recent mean size of a publish.
        clocks: the time of a shard, and the number of its next outbound record.
        redrives: how far open redrives have come on the lanes of vhosts with several.
        compared: the last range of offsets of the log of a sequenced vhost in which the digest of
            the job's fold was compared with the front's; they were equal.
        lowest_resident: by `TOPIC NUMBER/PARTITION`: the lowest offset of which a message may still
            be in a queue.
        quarantined: records of the batch that were not understood.
        unroutable: publishes that no queue took; `returned` went back, `publish_errors` were
            refused.
        rows: the rows of the batch by table, without the batch row itself.
        last_seq: vhost, lane and last seq of each shard that had events in the batch.
    """

    offsets: dict[str, dict[str, int]] = {}
    configuration: str = ""
    core_version: int = 0
    manifest: KnownManifest = KnownManifest()
    resident: dict[int, tuple[int, int]] = {}
    next_deadline_ms: dict[int, int] = {}
    mean_bytes: float = 0.0
    clocks: dict[int, tuple[int, int]] = {}
    redrives: dict[int, list[LaneNote]] = {}
    compared: dict[str, tuple[int, int]] = {}
    traffic: TrafficSums = TrafficSums()
    gate: GateState | None = None
    lowest_resident: dict[str, int] = {}
    cut_records: TruncatedRecords | None = None
    quarantined: int = 0
    unroutable: int = 0
    returned: int = 0
    publish_errors: int = 0
    rows: dict[str, int] | None = None
    last_seq: list[tuple[str, int, int]] = []

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """Topic and partition -> the next offset to read."""
        return by_partition(self.offsets)

    @property
    def resident_messages(self) -> int:
        """The copies ready, unacked or held of all shards, by the broker's own count."""
        return sum(messages for messages, _bytes in self.resident.values())

    @property
    def counted(self) -> int | None:
        """`resident_messages`; None if the row has none."""
        return self.resident_messages if self.resident else None

    @property
    def is_gate_open(self) -> bool:
        """Whether the next batch may read publishes."""
        return self.gate is None or self.gate.open


class BatchRow(msgspec.Struct, frozen=True):
    """The row of one batch.

    Attributes:
        now_ms: the batch's timestamp as Spark logged it, epoch milliseconds.
    """

    query_id: str
    batch_id: int
    now_ms: int
    detail: BatchDetail

    @property
    def at_s(self) -> float:
        """The batch's timestamp in epoch seconds."""
        return self.now_ms / 1000


def by_partition(offsets: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, int], int]:
    """The offset of each topic and partition, from topic -> partition -> offset."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def read_detail(document: str) -> BatchDetail:
    """Decode the column `detail` of a batch row."""
    return msgspec.json.decode(document, type=BatchDetail)


def write_detail(detail: BatchDetail) -> str:
    """Encode the column `detail` of a batch row."""
    document = msgspec.to_builtins(detail, str_keys=True)
    return msgspec.json.encode(document, order="deterministic").decode()
