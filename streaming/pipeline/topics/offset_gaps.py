"""Gaps in an input's log: records that Kafka deleted before the job had read them (D3).

    what the job has read        |------------>                       the next record it wants
    what Kafka still has                          |-------------->
    the gap                                    [..)

A topic that was deleted and recreated under the same name is a gap with an unknown end: the rest
of the old topic. If a log ends before the job's position (an unclean leader election), the input
cannot be continued: its next records would have the ids of earlier ones.

`GapWatch` looks for gaps while the job runs: one stops the job with an explanation.
"""

import logging
import threading
from collections.abc import Container, Sequence

import msgspec

from streaming.config import JobConfig
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.checkpoint.manifest import Manifest
from streaming.pipeline.checkpoint.spark_logs import Positions
from streaming.pipeline.topics.admin import (
    KafkaTopics,
    KafkaUnreachableError,
    MissingTopicError,
)
from topology.errors import DlxError

CHECK_S = 5.0

RETRY_S = 0.5
LONGEST_RETRY_S = 30.0
"""The first and the longest pause between two questions to a Kafka that does not answer."""

logger = logging.getLogger(__name__)


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

    help_code = "lost-records"

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


class LostLogError(LostRecordsError):
    """Kafka has lost records of a sequenced vhost: no fold of its log can go on behind them."""

    def __str__(self) -> str:
        """List every range, and why the loss cannot be accepted."""
        ranges = "\n".join(f"  {gap}" for gap in self.gaps)
        return (
            f"vhosts: Kafka deleted records of the logs of sequenced vhosts:\n{ranges}\n"
            "Restore them. Behind such a gap the tables would say something else than the AMQP "
            "front has told its clients, so --accept-loss does not hold here"
        )


def lost(gaps: Sequence[Gap], logs: Container[str]) -> LostRecordsError:
    """The error that says what to do about gaps; those of logs come first."""
    in_logs = [gap for gap in gaps if gap.topic in logs]
    return LostLogError(in_logs) if in_logs else LostRecordsError(gaps)


class LogTooShortError(DlxError):
    """A log ends before the position up to which the job has read it."""

    help_code = "log-too-short"


_OF_INPUT = ("inputs", "name another topic")
_OF_LOG = ("vhosts", "name a new log (amqp.log_topic), with a new checkpoint and new tables")
"""Where a topic is named that is too short, and what to do besides restoring it."""


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
                where, remedy = _OF_LOG if name in topics.logs else _OF_INPUT
                raise LogTooShortError(
                    f"{where}: topic {name!r}, partition {partition} ends at offset {latest}, but "
                    f"the job has read it up to {position}: Kafka lost records that the tables "
                    f"have, and new records would get their ids. Restore them, or {remedy}"
                )
    return gaps


class GapWatch:
    """Looks every few seconds for gaps before the next record to read.

    Attributes:
        failure: the gap that was found; the job must stop.
    """

    def __init__(self, config: JobConfig, topics: KafkaTopics, checkpoint: Checkpoint) -> None:
        self._topics = topics
        self._checkpoint = checkpoint
        self._mapped = {each.topic for each in config.inputs if each.mapping is not None}
        self.failure: DlxError | None = None
        self._one_at_a_time = threading.Lock()
        self._stopping = threading.Event()
        self._giving_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gap-watch", daemon=True)
        self._thread.start()

    def check_mapped_topics(self) -> None:
        """Check, before a batch is committed, that mapped topics are still the same topics.

        While Kafka does not answer, the batch waits: an outage does not end the job.

        Raises:
            RuntimeError: a topic was recreated; `find` says which.
            KafkaUnreachableError: a topic is missing, or the job stops.
        """
        if not self._mapped:
            return
        self._refresh_patiently()
        with self._one_at_a_time:
            known = self._checkpoint.manifest.topics
            new = [name for name in self._mapped if self._topics.identities[name] not in known]
        if new:
            raise RuntimeError(f"topics were recreated while a batch read them: {sorted(new)}")

    def _refresh_patiently(self) -> None:
        pause_s, has_waited = RETRY_S, False
        while True:
            try:
                with self._one_at_a_time:
                    self._topics.refresh()
            except MissingTopicError:
                raise
            except KafkaUnreachableError as error:
                if not has_waited:
                    logger.warning("the batch waits until Kafka answers: %s", error)
                has_waited = True
                if self._giving_up.wait(pause_s):
                    raise
                pause_s = min(2 * pause_s, LONGEST_RETRY_S)
                continue
            if has_waited:
                logger.warning("Kafka answers again; the batch continues")
            return

    def give_up(self) -> None:
        """Do not wait for Kafka any more: the job stops."""
        self._giving_up.set()

    def find(self, *, planned: bool) -> DlxError | None:
        """Return the fault of the logs; None if there is none, or Kafka does not answer.

        Args:
            planned: skip the records of a planned batch; it will read them, or fail.
        """
        logs = self._checkpoint.logs
        batch_id = logs.last_planned() if planned else logs.last_committed()
        try:
            if batch_id is None:
                return None
            positions = logs.offsets(batch_id).ends
            with self._one_at_a_time:
                self._topics.refresh()
                gaps = find_gaps(positions, self._topics, self._checkpoint.manifest)
        except LogTooShortError as error:
            return error
        except (KafkaUnreachableError, OSError):  # OSError: Spark has just deleted that file
            return None
        return lost(gaps, self._topics.logs) if gaps else None

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while self.failure is None and not self._stopping.wait(CHECK_S):
            try:
                found = self.find(planned=True)
                if isinstance(found, LostRecordsError) and any(g.end is None for g in found.gaps):
                    found = self.find(planned=False) or found  # the planned batch will fail
                self.failure = found
            except Exception:  # watching must not stop the stream by itself
                logger.exception("the inputs' logs could not be checked; trying again")
