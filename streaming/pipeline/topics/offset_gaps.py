"""Gaps in an input's log: records that Kafka deleted before the job had read them (D3).

    what the job has read        |------------>                       the next record it wants
    what Kafka still has                          |-------------->
    the gap                                    [..)

A topic that was deleted and recreated under the same name is a gap with an unknown end: the rest
of the old topic. If a log ends before the job's position (an unclean leader election), the input
cannot be continued: its next records would have the ids of earlier ones.
"""

from collections.abc import Sequence

import msgspec

from streaming.pipeline.checkpoint.manifest import Manifest
from streaming.pipeline.checkpoint.spark_logs import Positions
from streaming.pipeline.topics.admin import KafkaTopics
from topology.errors import DlxError


class Gap(msgspec.Struct, frozen=True):
    """A range of lost records.

    Attributes:
        topic_number: number of the topic that had them.
        start: offset of the first lost record.
        end: offset of the first record after them; None: the topic was recreated, and their number
            is not known.
        resume: the offset from which the partition of this name is read.
    """

    topic: str
    topic_number: int
    partition: int
    start: int
    end: int | None
    resume: int

    def __str__(self) -> str:
        """Describe the range."""
        place = f"topic {self.topic!r}, partition {self.partition}"
        if self.end is None:
            return f"{place}: from offset {self.start} on (the topic was deleted and recreated)"
        return f"{place}: offsets {self.start} to {self.end - 1} ({self.end - self.start} records)"


class LostRecordsError(DlxError):
    """Kafka has lost records that the job had not read."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        super().__init__(gaps)
        self.gaps = tuple(gaps)

    def __str__(self) -> str:
        """List every range, and the remedy."""
        ranges = "\n".join(f"  {gap}" for gap in self.gaps)
        return (
            f"inputs: Kafka deleted records before the job had read them:\n{ranges}\n"
            "Restore them, or run `dlx run --accept-loss`: the job continues after them, and "
            "writes one row per range to the table quarantine"
        )


class LogTooShortError(DlxError):
    """A log ends before the position up to which the job has read it."""


def find_gaps(positions: Positions, topics: KafkaTopics, manifest: Manifest) -> list[Gap]:
    """Find the gaps before the next records to read.

    Args:
        positions: the next offset of each partition that was read before.
        manifest: without numbers for topics that were recreated since.

    Raises:
        LogTooShortError: a log ends before its position.
    """
    watched = {name: ends for name, ends in positions.items() if name in topics.identities}
    bounds = topics.bounds(watched)
    gaps: list[Gap] = []
    for name, partitions in sorted(watched.items()):
        number = manifest.topics.get(topics.identities[name])
        is_recreated = number is None
        if number is None:
            numbers = manifest.topics
            number = max(numbers[key] for key, one in manifest.topic_names.items() if one == name)
        for partition, position in sorted(partitions.items()):
            place = (name, int(partition))
            earliest, latest = bounds.get(place, (0, 0)) if is_recreated else bounds[place]
            if is_recreated or earliest > position:
                end = None if is_recreated else earliest
                gaps.append(Gap(name, number, int(partition), position, end, earliest))
            elif latest < position:
                raise LogTooShortError(
                    f"inputs: topic {name!r}, partition {partition} ends at offset {latest}, but "
                    f"the job has read it up to {position}: Kafka lost records that the tables "
                    "have, and new records would get their ids. Name another topic"
                )
    return gaps
