"""Publishers of a front wait for a job that is behind, also while it starts again."""

import os
import signal
from contextlib import closing

import attrs
import pytest

from streaming.broker.sequence.digest import SEGMENT
from streaming.config import show_config
from streaming.queries.audit.balance import balance
from tests.bench.processes import Process
from tests.e2e.amqp.test_on_kafka import declare, ready
from tests.e2e.amqp.test_rebuild_on_kafka import follows
from tests.e2e.amqp.test_verify import verify
from tests.fixtures.fronts import Fronts
from tests.fixtures.waiting import wait_until

BODY = b"x" * 10_000
MOST_BYTES = 200_000


class Publisher:
    """A connection that publishes without confirms, and hears whether it has to wait."""

    def __init__(self, fronts: Fronts, front: Process) -> None:
        self.heard: list[str] = []
        self._connection = connection = fronts.connect(front)
        connection.add_on_connection_blocked_callback(lambda *_: self.heard.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: self.heard.append("unblocked"))
        self._channel = connection.channel()

    def publish(self, count: int, body: bytes = BODY) -> None:
        """Publish messages."""
        for _ in range(count):
            self._channel.basic_publish("", "work", body)

    def hears(self, *words: str) -> bool:
        """Whether it was told this, and nothing else."""
        self._connection.process_data_events(0.1)
        return self.heard == list(words)

    def goes_on(self) -> bool:
        """Whether it need not wait, whatever it was told before; that is forgotten."""
        self._connection.process_data_events(0.1)
        if self.heard[-1:] == ["blocked"]:
            return False
        self.heard.clear()
        return True


def with_marks(fronts: Fronts, max_bytes: int, max_ms: int) -> None:
    """Let publishers of the next front wait above other marks."""
    amqp = attrs.evolve(fronts.config.amqp, max_lag_bytes=max_bytes, max_lag_ms=max_ms)
    fronts.config = attrs.evolve(fronts.config, amqp=amqp)
    fronts.file.write_text(show_config(fronts.config))


@pytest.mark.long
def test_publishers_wait_for_a_job_that_sleeps_and_settlements_pass(fronts):
    with_marks(fronts, max_bytes=MOST_BYTES, max_ms=0)
    front = fronts.start()
    settling = fronts.connect(front).channel()
    declare(settling)
    publisher = Publisher(fronts, front)
    publisher.publish(100)
    wait_until(lambda: publisher.hears() and ready(settling, "work") == 100)

    job = fronts.start_job()  # far behind from its start on
    follows(fronts, job)
    wait_until(publisher.goes_on)
    taken = [settling.basic_get("work")[0].delivery_tag for _ in range(10)]

    assert job.pid is not None
    os.kill(job.pid, signal.SIGSTOP)
    publisher.publish(2 * MOST_BYTES // len(BODY))
    wait_until(lambda: publisher.hears("blocked"))
    publisher.publish(5)  # they wait in its socket
    settling.basic_ack(taken[4], multiple=True)
    for tag in taken[5:]:
        settling.basic_reject(tag, requeue=False)
    assert (ready(settling, "work"), ready(settling, "dead")) == (130, 5)
    assert publisher.hears("blocked")
    os.kill(job.pid, signal.SIGCONT)
    wait_until(lambda: publisher.hears("blocked", "unblocked"))
    wait_until(lambda: ready(settling, "work") == 135)
    follows(fronts, job)
    front.stop()

    # by time, and while the job starts again
    with_marks(fronts, max_bytes=0, max_ms=2_000)
    front = fronts.start()
    settling = fronts.connect(front).channel()
    publisher = Publisher(fronts, front)
    follows(fronts, job)
    publisher.publish(1)
    follows(fronts, job)
    wait_until(publisher.goes_on)

    os.kill(job.pid, signal.SIGSTOP)
    publisher.publish(1)
    wait_until(lambda: publisher.hears("blocked"))
    publisher.publish(3)
    job.kill()
    job = fronts.start_job()
    assert publisher.hears("blocked")
    follows(fronts, job)
    wait_until(publisher.goes_on)
    wait_until(lambda: ready(settling, "work") == 140)
    publisher.publish(SEGMENT, b"small")  # a digest follows, which the job compares
    wait_until(lambda: ready(settling, "work") == 140 + SEGMENT)
    follows(fronts, job)
    wait_until(publisher.goes_on)
    job.stop()
    front.stop()
    status, [log], _ = verify(fronts)
    assert (status, log["digests"], log["parting"]) == (0, 1, None)
    with closing(fronts.tables()) as tables:
        whole = balance(tables, whole=True)
    assert whole.findings == []
    found = {row.queue: row.ready for row in whole.queues if row.queue}
    assert found == {"work": 140 + SEGMENT, "dead": 5}
