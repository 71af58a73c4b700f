"""Watches the inputs' logs while the job runs: a gap stops the job with an explanation (D3)."""

import logging
import threading

from streaming.config import JobConfig
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.topics.admin import KafkaTopics, KafkaUnreachableError
from streaming.pipeline.topics.offset_gaps import LogTooShortError, LostRecordsError, find_gaps
from topology.errors import DlxError

CHECK_S = 5.0

logger = logging.getLogger(__name__)


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
        self._thread = threading.Thread(target=self._run, name="gap-watch", daemon=True)
        self._thread.start()

    def check_mapped_topics(self) -> None:
        """Check, before a batch is committed, that mapped topics are still the same topics.

        Raises:
            RuntimeError: a topic was recreated; `find` says which.
        """
        if not self._mapped:
            return
        with self._one_at_a_time:
            self._topics.refresh()
            known = self._checkpoint.manifest.topics
            new = [name for name in self._mapped if self._topics.identities[name] not in known]
        if new:
            raise RuntimeError(f"topics were recreated while a batch read them: {sorted(new)}")

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
        return LostRecordsError(gaps) if gaps else None

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
