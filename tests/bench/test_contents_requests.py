"""An update of the contents in an object store costs the same after few and many earlier ones."""

from streaming.storage.location import Location
from tests.bench.contents_requests import Cost, cost_of_update, findings
from tests.fixtures.object_store import BUCKET, object_store

__all__ = ["object_store"]

KEPT = 40


def test_requests_and_bytes_of_an_update_do_not_grow_with_its_history(tmp_path, object_store):
    costs = []
    for earlier in (60, 660):
        place = Location(f"s3://{BUCKET}/{tmp_path.name}-{earlier}", object_store.options)
        costs.append(cost_of_update(tmp_path / str(earlier), object_store, place, earlier, KEPT))

    assert findings(*costs) == []
    assert all(count > 0 for count in costs[0])


def test_more_requests_and_many_more_bytes_are_findings():
    few = Cost(reads=10, writes=2, bytes_read=1_000, bytes_written=500)

    assert findings(few, few._replace(bytes_read=1_050)) == []
    assert findings(few, few._replace(reads=11)) == ["reads: 11 instead of 10"]
    assert findings(few, few._replace(bytes_read=2_000)) == ["bytes_read: 2000 instead of 1000"]
