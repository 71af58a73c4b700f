"""What an update of `queue_contents` asks of an object store, after few and after many batches.

    python -m tests.bench.contents_requests [--few 1000] [--many 100000]

Two ledgers in an S3-compatible server have one resident batch each, and a synthetic log of this
many earlier updates, as upkeep leaves it: a recent checkpoint, and the entries of the last minute.
Then both get the same batch, and the job's own update. The server counts requests and bytes. The
exit status is 1 if the longer history costs more.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from streaming.contents.updater import ContentsUpdater
from streaming.embedded.object_store_server import ObjectStoreServer
from streaming.ledger.schema.table_setup import load_table
from streaming.queries.as_of.contents import CONTENTS
from streaming.storage.location import Location
from streaming.storage.object_store import ObjectStorage
from tests.bench.output import say
from tests.builders import Broker
from tests.unit.queries.recording import QUERY_ID, Recording

BUCKET: Final = "dlx-bench"
KEPT_ENTRIES: Final = 600
"""In the log: those of a minute, at ten updates per second."""

CHECKPOINT_UPDATES: Final = 20
SPARSE_CHECKPOINTS: Final = 2_000  # where the log is already cleaned up
UPDATE_MS: Final = 100
BATCH_MESSAGES: Final = 100
MOST_MORE: Final = 1.1
"""How much more bytes the longer history may take: numbers in the log have more digits."""


class Cost(NamedTuple):
    """What one update asked for."""

    reads: int
    writes: int
    bytes_read: int
    bytes_written: int


def cost_of_update(
    folder: Path,
    server: ObjectStoreServer,
    place: Location,
    earlier: int,
    kept: int = KEPT_ENTRIES,
) -> Cost:
    """Count the requests of an update after `earlier` ones.

    Args:
        folder: an empty folder.
        place: an empty place on the server.
        kept: entries that cleaning up leaves in the log.
    """
    broker = Broker()
    broker.queue("work")
    recording = Recording(folder, broker)
    _publish(recording)
    recording.close()
    ContentsUpdater(Location(str(folder)), QUERY_ID).update()
    _add_history(folder / CONTENTS, earlier, kept)
    _upload(folder, place)
    recording = Recording(place.url, broker, options=place.options)
    recording.batch_id = earlier
    _publish(recording)
    recording.close()
    updater = ContentsUpdater(place, QUERY_ID)
    updater.nets.add(QUERY_ID, recording.batch_id, recording.nets)
    before = server.counts()
    updated = updater.update()
    after = server.counts()
    assert updated is not None, "there was a batch"
    assert updated.rows == 2 * BATCH_MESSAGES, "the update has not seen all rows"
    spent = {name: count - before.get(name, 0) for name, count in after.items()}
    reads, writes = spent["GET"] + spent.get("HEAD", 0), spent["PUT"]
    return Cost(reads, writes, spent["bytes_out"], spent["bytes_in"])


def _publish(recording: Recording) -> None:
    for _ in range(BATCH_MESSAGES):
        recording.brokers[0].publish("", "work", "order")
    recording.commit()


def _add_history(table: Path, updates: int, kept: int) -> None:
    """Write the log of many updates, each of which replaced the file of the one before."""
    log, first = table / "_delta_log", load_table(Location(str(table))).version() + 1
    now_ms = time.time_ns() // 1_000_000
    for number in range(1, updates + 1):
        at_ms = now_ms - (updates - number) * UPDATE_MS
        entries: list[object] = [{"commitInfo": {}}]
        entries.append({"txn": {"appId": QUERY_ID, "version": number}})
        if number < updates:
            entries.append({"add": _file(number) | {"modificationTime": at_ms, "stats": "{}"}})
        if number > 1:
            entries.append({"remove": _file(number - 1) | {"deletionTimestamp": at_ms}})
        text = "\n".join(map(json.dumps, entries))
        (log / f"{first + number - 1:020}.json").write_text(text)
        is_recent = updates - number < kept
        if number % (CHECKPOINT_UPDATES if is_recent else SPARSE_CHECKPOINTS) == 0:
            load_table(Location(str(table))).create_checkpoint()
    _clean_up(log, first + updates - kept)


def _file(number: int) -> dict[str, object]:
    path = f"{QUERY_ID}.{number:012}.contents.parquet"
    return {"path": path, "partitionValues": {}, "size": 10_000, "dataChange": True}


def _clean_up(log: Path, first_kept: int) -> None:
    """Remove entries and checkpoints as upkeep does."""
    for file in log.iterdir():
        number = file.name.partition(".")[0]
        if number.isdigit() and int(number) < first_kept:
            file.unlink()


def _upload(folder: Path, place: Location) -> None:
    objects = ObjectStorage(place.url, place.options)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            objects.replace(str(file.relative_to(folder)), file.read_bytes())


def findings(few: Cost, many: Cost) -> list[str]:
    """What a longer history costs more, in words; empty if nothing."""
    most = (1, 1, MOST_MORE, MOST_MORE)
    return [
        f"{name}: {later} instead of {early}"
        for name, early, later, factor in zip(Cost._fields, few, many, most, strict=True)
        if later > factor * early
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--many", type=int, default=100_000)
    sizes = parser.parse_args()
    costs = []
    with tempfile.TemporaryDirectory(prefix="dlx-contents-") as root, ObjectStoreServer() as server:
        server.make_bucket(BUCKET)
        for earlier in (sizes.few, sizes.many):
            place = Location(f"s3://{BUCKET}/{earlier}", server.options)
            costs.append(cost_of_update(Path(root) / str(earlier), server, place, earlier))
            shown = "  ".join(f"{name} {count}" for name, count in costs[-1]._asdict().items())
            say(f"earlier {earlier}  {shown}")
    found = findings(*costs)
    for line in found:
        say(f"more with a longer history: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
