"""Kafka is away for a minute, and starts again: everything waits, and nothing is lost."""

import os
import random
import signal
from contextlib import closing
from pathlib import Path

import pytest

from streaming.embedded.kafka.broker import EmbeddedKafka
from tests.bench.chaos.front.fronts import Running
from tests.bench.chaos.front.journal import Journal, read_journal
from tests.bench.chaos.front.pika_client import PikaClient, declare
from tests.bench.chaos.front.run import (
    checked,
    opened,
    wait_for_confirms,
    wait_for_digest,
)
from tests.bench.chaos.front.strikes import Strikes, wait_for

AWAY_S = 60.0


class Listener:
    """A connection that has published, and hears whether publishers have to wait."""

    def __init__(self, connection, name: str, client: PikaClient) -> None:
        self.heard: list[str] = []
        self._connection = connection
        connection.add_on_connection_blocked_callback(lambda *_: self.heard.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: self.heard.append("unblocked"))
        channel = connection.channel()
        channel.confirm_delivery()
        client.publish_one(name, channel)

    def is_blocked(self) -> bool:
        """Whether publishers have to wait now."""
        self._connection.process_data_events(0.1)
        return self.heard[-1:] == ["blocked"]


@pytest.mark.long
def test_kafka_is_away_for_a_minute_and_nothing_that_was_confirmed_is_lost(tmp_path):
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        running = Running(tmp_path, kafka)
        try:
            _away(running, kafka, tmp_path / "pika.jsonl")
        finally:
            running.kill()


def _away(running: Running, kafka: EmbeddedKafka, file: Path) -> None:
    running.start()
    leader = wait_for(running, running.leader, "no front leads")
    with closing(opened(running, leader)) as connection:
        declare(connection.channel())
    journal = Journal(file)
    client = PikaClient([front.port for front in running.fronts], journal, 0.004)
    with client:
        wait_for(running, lambda: running.job_position() > 0, "the job reads nothing")
        with closing(opened(running, leader)) as connection:
            listener = Listener(connection, journal.open(leader.port, "listener"), client)

            def waits(*, blocked: bool) -> None:  # it may wait for other reasons on a busy machine
                wait_for(
                    running, lambda: listener.is_blocked() is blocked, f"blocked is not {blocked}"
                )

            waits(blocked=False)
            assert kafka.pid is not None
            os.kill(kafka.pid, signal.SIGSTOP)
            try:
                waits(blocked=True)
                heard, confirmed = len(listener.heard), _confirmed(file)
                running.pause(AWAY_S)
                assert listener.is_blocked()
                assert (len(listener.heard), _confirmed(file)) == (heard, confirmed)
            finally:
                os.kill(kafka.pid, signal.SIGCONT)
            waits(blocked=False)
            wait_for_confirms(running, [file])

            waits(blocked=False)
            kafka.kill()  # now it refuses connections instead
            waits(blocked=True)
            running.pause(AWAY_S / 4)
            kafka.start()
            waits(blocked=False)
        wait_for_confirms(running, [file])
        wait_for_digest(running)
        assert running.leader() is leader, "nobody took over"
    journal.close()
    strikes = Strikes(running, random.Random(1), lambda _front: None)
    result = checked(running, strikes, read_journal(file), print)

    assert result.findings == []
    assert running.too_early == 0
    assert result.digests > 0
    assert min(result.seen[kind] for kind in ("confirmed", "acked", "rejected", "requeued")) > 0


def _confirmed(file: Path) -> int:
    return sum(entry.kind == "confirmed" for entry in read_journal(file))
