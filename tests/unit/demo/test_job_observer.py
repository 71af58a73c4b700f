"""The demo reads the events of each batch where the job has written them."""

from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.client.address import Address
from streaming.demo.job_observer import Depth, JobObserver
from streaming.pipeline.reports import BatchDone
from streaming.queries.duckdb_tables import Tables
from streaming.storage.location import Location
from tests.builders import Broker
from tests.fixtures.object_store import object_store, shared_place
from tests.unit.queries.recording import Recording

__all__ = ["object_store", "shared_place"]


@pytest.fixture(params=["folder", "object store"])
def tables(request, tmp_path):
    if request.param == "folder":
        return Location(str(tmp_path))
    return request.getfixturevalue("shared_place")


def test_a_batch_changes_the_depths_wherever_its_tables_are(tables):
    broker = Broker()
    broker.queue("work")
    broker.publish("", "work", "order")
    recording = Recording(tables.url, broker, options=tables.options)
    recording.commit()
    recording.close()
    with closing(Tables(tables.url, tables.options)) as opened:
        files = [SimpleNamespace(table="events", path=path) for path in opened.files("events")]
    report: Any = SimpleNamespace(next_deadline_ms=0, files=files)
    job: Any = SimpleNamespace(tables=tables)
    address = Address(bootstrap="127.0.0.1:1")

    with closing(JobObserver(address)) as observer:
        observer.batch_done(BatchDone(0, 0, [report], 0, 0, {"stages": 0.1, "commit": 0.1}))
        observer.process_batches(job)

        assert observer.depths.by_queue() == {"work": Depth(1, 0)}
