"""The live view: the queues, as the tables have them, below the lines of the log."""

import io
import logging

import pytest
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from rich.console import Console

from streaming.broker import commands
from streaming.ledger.batch_detail import BatchDetail, GateState
from streaming.pipeline.observe.job_log import JobLog, log_batch
from streaming.pipeline.observe.live_view import LiveView
from streaming.pipeline.reports import BatchDone, ShardStats
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queue_activity import QueueTraffic, queue_activity
from streaming.storage.location import Location
from tests.builders import Broker
from tests.unit.queries.recording import Recording

OPEN = GateState(0, 100, "below", open=True)


@pytest.fixture
def recording(tmp_path):
    """Queues with a consumer, ready and unacked messages, and one that is empty."""
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    broker.queue("idle")
    for number in range(3):
        broker.publish("", "work", f"order {number}")
    recording.commit()
    broker.do(commands.Consume(queue="work", label="c", prefetch=2, channel="clerk"))
    broker.publish("", "work", "order 3")
    broker.do(commands.Ack(refs=("c/0",), channel="clerk"))
    recording.commit()
    return recording


def shown(view, stream):
    """The last table, as rows of cells."""
    view.close()
    lines = [line.split() for line in stream.getvalue().splitlines() if line.strip()]
    return [line for line in lines if line[0] in {"queue", "work", "idle"}]


def a_view(root, width=80, **options):
    stream = io.StringIO()
    return LiveView(Location(str(root)), Console(file=stream, width=width, **options)), stream


def test_the_view_shows_depth_rates_age_and_consumers_of_each_queue(recording, tmp_path):
    view, stream = a_view(tmp_path)

    titles, work, idle = shown(view, stream)

    assert titles == ["queue", "ready", "unacked", "in/s", "out/s", "oldest", "consumers"]
    assert (work[:3], work[-1]) == (["work", "1", "2"], "1")
    assert work[-3:-1][1] == "d"  # years, in days
    assert (idle[:3], idle[-1]) == (["idle", "0", "0"], "0")


def test_the_title_says_what_the_job_holds_and_which_faults_it_has_seen(recording, tmp_path):
    view, stream = a_view(tmp_path, width=200)
    faults = {"quarantined": 2, "unroutable": 0, "returned": 0, "publish_errors": 1}

    for batch_id in (7, 8):
        view.show(BatchDone(batch_id, 0, [], 0, 0, {}, faults), ShardStats(BatchDetail()), OPEN)
    view.close()

    assert "batch 8: 0 messages, 0 bytes; gate open; 4 quarantined; 2 publish errors" in (
        stream.getvalue()
    )


def test_a_view_without_tables_waits(tmp_path):
    view, stream = a_view(tmp_path / "nowhere")

    view.close()

    assert "waiting for the first batch" in stream.getvalue()


def test_traffic_counts_what_entered_and_left_in_later_batches(recording, tmp_path):
    tables = Tables(str(tmp_path))

    first = queue_activity(tables, None)
    everything = queue_activity(tables, -1)
    later = queue_activity(tables, 0)

    assert (first.batch_id, first.traffic, first.consumers) == (1, {}, {("/", "work"): 1})
    assert everything.traffic == {("/", "work"): QueueTraffic(4, 1)}
    assert later.traffic == {("/", "work"): QueueTraffic(1, 1)}
    assert queue_activity(tables, 1).traffic == {}
    assert [depth.queue for depth in first.queues] == ["idle", "work"]


@pytest.fixture
def job_log(tmp_path):
    """The log of a job with a live view; the loggers of before come back."""
    root = logging.getLogger()
    level, before = root.level, list(root.handlers)
    log = JobLog("text", hides_batches=True)
    log.keep_in(tmp_path)
    yield log
    logging.captureWarnings(capture=False)
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        del server.handle_error
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.mark.usefixtures("job_log")
def test_lines_of_the_log_appear_above_the_table_and_those_of_batches_do_not(recording, tmp_path):
    view, stream = a_view(tmp_path, force_terminal=True, height=12)

    logging.getLogger("dlx").warning("3 records were quarantined")
    log_batch({"event": "batch", "batch_id": 7})
    view.close()

    terminal = stream.getvalue()
    assert "WARNING 3 records were quarantined\n" in terminal
    assert terminal.index("3 records") < terminal.rindex("work")
    assert '"batch_id"' not in terminal
    kept = (tmp_path / "dlx.log").read_text().splitlines()
    assert [line.split(maxsplit=3)[-1] for line in kept] == [
        "3 records were quarantined",
        '{"event": "batch", "batch_id": 7}',
    ]
