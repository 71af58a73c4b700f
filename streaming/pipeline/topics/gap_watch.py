"""Watching the inputs' logs while the job runs: a hole stops it, in words (D3)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from streaming.pipeline.topics.admin import KafkaUnreachableError
from streaming.pipeline.topics.offset_gaps import LogTooShortError, LostRecordsError, find_holes

if TYPE_CHECKING:
    from streaming.config import JobConfig
    from streaming.pipeline.checkpoint.checkpoint import Checkpoint
    from streaming.pipeline.topics.admin import KafkaTopics
    from topology.errors import DlxError

WATCH_S = 5.0

logger = logging.getLogger(__name__)


class LogWatch:
    """Looks for holes in front of what is read next, every few seconds.

    Attributes:
        failure: what was found; the job must stop.
    """

    def __init__(self, config: JobConfig, topics: KafkaTopics, checkpoint: Checkpoint) -> None:
        self._topics = topics
        self._checkpoint = checkpoint
        self._mapped = {each.topic for each in config.inputs if each.mapping is not None}
        self.failure: DlxError | None = None
        self._one_at_a_time = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-watch", daemon=True)
        self._thread.start()

    def check_mapped_topics(self) -> None:
        """Between reading a batch and committing it: are they still the same topics?

        Raises:
            RuntimeError: one was made anew; which, `look` says.
        """
        if not self._mapped:
            return
        with self._one_at_a_time:
            self._topics.refresh()
            known = self._checkpoint.job_file.topics
            anew = [name for name in self._mapped if self._topics.identities[name] not in known]
        if anew:
            raise RuntimeError(f"topics were made anew while a batch read them: {sorted(anew)}")

    def look(self, *, planned: bool) -> DlxError | None:
        """What is wrong with the logs now; None if nothing is, or if Kafka does not say.

        Args:
            planned: a batch that is planned will get its records, or fail.
        """
        batch_id = self._checkpoint.last_planned() if planned else self._checkpoint.last_committed()
        try:
            if batch_id is None:
                return None
            positions = self._checkpoint.offsets(batch_id).ends
            with self._one_at_a_time:
                self._topics.refresh()
                holes = find_holes(positions, self._topics, self._checkpoint.job_file)
        except LogTooShortError as error:
            return error
        except (KafkaUnreachableError, OSError):  # no answer now; or Spark tidied up this instant
            return None
        return LostRecordsError(holes) if holes else None

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while self.failure is None and not self._stopping.wait(WATCH_S):
            try:
                found = self.look(planned=True)
                if isinstance(found, LostRecordsError) and any(h.end is None for h in found.holes):
                    found = self.look(planned=False) or found  # the planned batch will fail
                self.failure = found
            except Exception:  # watching never stops the stream by itself
                logger.exception("the inputs' logs could not be looked at; it is tried again")
