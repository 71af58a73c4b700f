"""The log of a sequenced vhost is trimmed on a real Kafka, and nobody misses what was in it."""

from contextlib import closing

import attrs
import pytest

from streaming.config import show_config
from streaming.queries.audit.balance import balance
from streaming.sequencer.log_reader import LogReader
from tests.e2e.amqp.test_on_kafka import declare, fill, ready
from tests.fixtures.fronts import Fronts
from tests.fixtures.waiting import wait_until


def trims(fronts: Fronts) -> None:
    """Let the job trim soon, and all that it may."""
    config = fronts.config
    fronts.config = attrs.evolve(
        config,
        kafka=attrs.evolve(config.kafka, trim_interval_ms=1_000),
        amqp=attrs.evolve(config.amqp, log_retention_ms=0),
    )
    fronts.file.write_text(show_config(fronts.config))


def begin_of_log(fronts: Fronts) -> int:
    """The first offset that the log has."""
    topic = fronts.config.log_topics()["/"]
    with closing(LogReader({"bootstrap.servers": fronts.servers}, topic)) as reader:
        return reader.ends()[0]


@pytest.mark.long
def test_what_was_trimmed_is_missed_by_no_front_and_by_no_job(fronts):
    trims(fronts)
    front = fronts.start()
    channel = fronts.connect(front).channel()
    declare(channel)
    fill(channel, 2_000)
    taken = [channel.basic_get("work")[0].delivery_tag for _ in range(1_990)]
    channel.basic_ack(taken[-1], multiple=True)
    assert ready(channel, "work") == 10
    front.stop()  # it leaves a snapshot
    job = fronts.start_job()

    wait_until(lambda: begin_of_log(fronts) > 0, job.log_end, 600.0, 1.0)
    begin = begin_of_log(fronts)
    assert 1_000 < begin <= 1_993, "no further than the first message that is in a queue"
    front = fronts.start()
    channel = fronts.connect(front).channel()
    channel.confirm_delivery()
    fill(channel, 5, "n")
    job.kill()
    front.kill()

    front, job = fronts.start(), fronts.start_job()
    channel = fronts.connect(front).channel()
    bodies = [channel.basic_get("work", auto_ack=True)[2] for _ in range(15)]
    assert bodies == [*(b"m%d" % n for n in range(1_990, 2_000)), *(b"n%d" % n for n in range(5))]
    front.stop()

    def acked() -> int:
        job.check()
        with closing(fronts.tables()) as tables:
            tables.view("events")
            found = tables.values("SELECT count(*) FROM events WHERE kind IN ('acked', 'consumed')")
        return int(found[0][0])

    wait_until(lambda: acked() == 2_005, job.log_end, 600.0, 1.0)
    job.stop()
    with closing(fronts.tables()) as tables:
        assert balance(tables, whole=True).findings == []
        tables.view("messages")
        assert tables.values("SELECT count(*) FROM messages") == [(2_005,)]

    snapshots = fronts.root / "checkpoints" / "sequencer"
    snapshots.rename(snapshots.with_name("aside"))
    lost = fronts.start()
    wait_until(lambda: "no usable snapshot" in lost.log_end(), lost.log_end)
    assert f"begins at offset {begin_of_log(fronts)}" in lost.log_end()
