"""Holes in an input's log: records that Kafka gave up before the job had read them (D3).

    what the job has read        |------------>                       the next record it wants
    what Kafka still has                          |-------------->
    the hole                                   [..)

A topic that was deleted and made anew under the same name is a hole without a known end: the rest
of the old one. A log that ends before what was read from it (an unclean leader election) cannot be
continued at all: its next records would have the ids of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from topology.errors import DlxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from streaming.pipeline.checkpoint.manifest import JobFile
    from streaming.pipeline.topics.admin import KafkaTopics

Positions = dict[str, dict[str, int]]
"""Topic -> partition -> the next offset wanted."""


class Hole(msgspec.Struct, frozen=True):
    """A range of records that are lost.

    Attributes:
        topic_number: of the topic that they were in.
        start: the first of them.
        end: the first that is there again; None: the topic was made anew, and how many there were
            is not known.
        resume: from where on the partition of this name is read.
    """

    topic: str
    topic_number: int
    partition: int
    start: int
    end: int | None
    resume: int

    def __str__(self) -> str:
        """The range in words."""
        place = f"topic {self.topic!r}, partition {self.partition}"
        if self.end is None:
            return f"{place}: offset {self.start} and on (the topic was deleted and made anew)"
        return f"{place}: offsets {self.start} to {self.end - 1} ({self.end - self.start} records)"


class LostRecordsError(DlxError):
    """Kafka has lost records that the job had not read; carries the ranges."""

    def __init__(self, holes: Sequence[Hole]) -> None:
        super().__init__(holes)
        self.holes = tuple(holes)

    def __str__(self) -> str:
        """Every range, and the remedy."""
        ranges = "\n".join(f"  {hole}" for hole in self.holes)
        return (
            f"inputs: records were deleted from Kafka before the job had read them:\n{ranges}\n"
            "Restore them, or run `dlx run --accept-loss`: it goes on behind them, and writes one "
            "row for each range into the table quarantine"
        )


class LogTooShortError(DlxError):
    """A log ends before what was read from it."""


def find_holes(positions: Positions, topics: KafkaTopics, numbers: JobFile) -> list[Hole]:
    """The holes in front of what is to be read next.

    Args:
        positions: of topics that were read before.
        numbers: as they were when that was, before topics made since got theirs.

    Raises:
        LogTooShortError: a log ends before its position.
    """
    watched = {name: ends for name, ends in positions.items() if name in topics.identities}
    bounds = topics.bounds(watched)
    holes: list[Hole] = []
    for name, partitions in sorted(watched.items()):
        number = numbers.topics.get(topics.identities[name])
        if number is None:
            holes += _made_anew(name, partitions, numbers, bounds)
        else:
            holes += _in_partitions(name, number, partitions, bounds)
    return holes


def _made_anew(
    name: str,
    partitions: Mapping[str, int],
    numbers: JobFile,
    bounds: Mapping[tuple[str, int], tuple[int, int]],
) -> Iterator[Hole]:
    known = [identity for identity, one in numbers.topic_names.items() if one == name]
    number = numbers.topics[known[-1]]
    for partition, position in sorted(partitions.items()):
        earliest, _latest = bounds.get((name, int(partition)), (0, 0))
        yield Hole(name, number, int(partition), position, None, earliest)


def _in_partitions(
    name: str,
    number: int,
    partitions: Mapping[str, int],
    bounds: Mapping[tuple[str, int], tuple[int, int]],
) -> Iterator[Hole]:
    for partition, position in sorted(partitions.items()):
        earliest, latest = bounds[(name, int(partition))]
        if earliest > position:
            yield Hole(name, number, int(partition), position, earliest, earliest)
        elif latest < position:
            raise LogTooShortError(
                f"inputs: topic {name!r}, partition {partition} ends at offset {latest}, and the "
                f"job has read it up to {position}: Kafka lost records that the tables have, and "
                "new ones would get their ids. Name another topic"
            )
