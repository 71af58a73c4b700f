"""The job's heartbeat: about once a second, a record in a topic beside every outbound topic.

    dlx.out._2f.guest.alive: {"type": "alive", "active": true, ..., "address": {...}, "job": {...}}

A client may receive no deliveries for hours; the heartbeat lets it notice within seconds that the
job is gone. It also says which topics and limits apply to the vhost and user, so a client needs no
configuration of the job; and whose it is, so that a second job is not started on the same topics.
`log` says how far that of a sequenced vhost is committed, so that its front lets publishers wait,
and on which terms the job folds it, so that a front of other terms does not begin beside it. The
heartbeat of such a vhost comes after each batch, too: publishers wait no longer than they must.
`batch` says which batch was committed last and how long ago, and how long the running one takes:
the heartbeat is sent whatever Spark does, so this is how a stuck stream is seen. It has its own
topic, so that the outbound topic is silent when there is nothing to deliver. It repeats the last
notice of flow control, with its `dlx-seq`: a client reads the last heartbeat first, and knows at
once whether publishers may publish.

The driver sends it on its own thread, whatever Spark does. A replay has nothing to repeat; a
heartbeat that Kafka has not accepted after a few seconds is dropped.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial

from msgspec import structs

from streaming.broker.sequence.log_fold import Terms
from streaming.pipeline.flow.log_bounds import Positions
from streaming.pipeline.flow.notices import FlowNotices
from streaming.protocol.addressing import JobAddress, JobMark, alive_topic
from streaming.protocol.record_headers import VHOST
from streaming.record_sender import RecordSender, SendError

INTERVAL_S = 1.0
TIMEOUT_MS = 3_000

logger = logging.getLogger(__name__)


class Heartbeat:
    """Sends heartbeats beside the outbound topics of each (vhost, user) until it is stopped.

    Args:
        logs: sequenced vhost -> its log.
        ends: topic -> partition -> the next offset that the job has not committed, as it starts.
        terms: of sequenced vhosts.
    """

    def __init__(
        self,
        notices: FlowNotices,
        addresses: Iterable[JobAddress],
        job: JobMark,
        sender: RecordSender,
        logs: Mapping[str, str],
        ends: Positions,
        terms: Mapping[str, Terms],
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._notices = notices
        self._terms = terms
        self._logs = logs
        self._log_ends = self._ends_of_logs(ends)
        self._job = structs.asdict(job)
        self._addresses = {alive_topic(each.outbound): each for each in addresses}
        self._of_logs = {
            topic: each for topic, each in self._addresses.items() if each.vhost in logs
        }
        self._sender = sender
        self._interval_s = interval_s
        self._failures = HeartbeatFailures()
        self._batch_id: int | None = None
        self._done_s = self._began_s = 0.0
        self._stops = False
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def batch_began(self) -> None:
        """Note that a batch runs."""
        self._began_s = time.monotonic()

    def batch_done(self, batch_id: int, ends: Positions) -> None:
        """Note that the batch is committed.

        Args:
            ends: topic -> partition -> the next offset that it has not read.
        """
        self._log_ends = self._ends_of_logs(ends)
        self._batch_id, self._done_s, self._began_s = batch_id, time.monotonic(), 0.0
        if self._logs:
            self._news.set()

    def _ends_of_logs(self, ends: Positions) -> dict[str, int]:
        """How far logs are committed; those that nothing is committed of, not at all."""
        return {name: ends.get(name, {}).get("0", 0) for name in self._logs.values()}

    def _batch(self) -> dict[str, int | None]:
        now_s, began_s = time.monotonic(), self._began_s
        age_s = now_s - self._done_s
        return {
            "id": self._batch_id,
            "age_ms": None if self._batch_id is None else int(1000 * age_s),
            "running_ms": int(1000 * (now_s - began_s)) if began_s else None,
        }

    def _log(self, vhost: str) -> dict[str, int | str | None] | None:
        """How far the log of a sequenced vhost is committed, and how it is folded."""
        topic = self._logs.get(vhost)
        if topic is None:
            return None
        return {"next_offset": self._log_ends.get(topic), **self._terms[vhost]._asdict()}

    def stop(self) -> None:
        """Stop; returns when no further heartbeat will be sent."""
        self._stops = True
        self._news.set()
        self._thread.join()

    def _run(self) -> None:
        next_s = time.monotonic()
        while True:
            self._news.clear()
            if self._stops:
                return
            now_s = time.monotonic()
            is_due = now_s >= next_s
            if is_due:
                next_s = now_s + self._interval_s
            self._beat(self._addresses if is_due else self._of_logs)
            self._failures.log_changes()
            self._news.wait(next_s - time.monotonic())

    def _beat(self, addresses: Mapping[str, JobAddress]) -> None:
        for topic, address in addresses.items():
            value, headers = self._notices.record(
                "alive",
                address=structs.asdict(address),
                job=self._job,
                batch=self._batch(),
                log=self._log(address.vhost),
            )
            on_result = partial(self._failures.set_result, topic)
            named = [*headers, (VHOST, address.vhost.encode())]
            try:
                self._sender.send(
                    topic, value, on_result=on_result, timeout_s=0, partition=0, headers=named
                )
            except SendError as error:
                on_result(str(error))


class HeartbeatFailures:
    """The topics that do not accept heartbeats; each failure and each recovery is logged once."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._logged: set[str] = set()

    def set_result(self, topic: str, failure: str | None) -> None:
        """Store the result of a heartbeat; None: Kafka has it."""
        if failure is None:
            self._reasons.pop(topic, None)
        else:
            self._reasons[topic] = failure

    def log_changes(self) -> None:
        """Log the topics that failed or recovered since the last call."""
        failed = sorted(self._reasons.keys() - self._logged)
        recovered = sorted(self._logged - self._reasons.keys())
        self._logged = set(self._reasons)
        if failed:
            logger.warning(
                "the heartbeat in %s fails, so clients cannot tell whether the job runs: %s",
                _named(failed),
                self._reasons[failed[0]],
            )
        if recovered:
            logger.warning("the heartbeat in %s works again", _named(recovered))


def _named(topics: list[str]) -> str:
    others = len(topics) - 1
    return f"{topics[0]} and {others} more" if others else topics[0]
