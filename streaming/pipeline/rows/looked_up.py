"""The version of `messages` in which a batch looks up letters that are in no queue.

    first lookup --> a file names the version --> the batch ends, or a crash
                                                        |
    replay: first lookup --> the file is there <--------+   the same version, the same answers

Such letters may be removed or erased at any time, also after a crash and before the batch runs
again. It must find then what it found at first, because its files are written. Rows that left the
table since are in its old files, which vacuum keeps for a while.
"""

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from streaming.ledger.read.table_files import ActiveFiles
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.schema.table_setup import load_table
from streaming.ledger.write.data_file import DataFileName
from streaming.storage.location import Location

_VERSION = "version"


class LookedUp(NamedTuple):
    """The files of one version of `messages`."""

    version: int
    files: ActiveFiles


def looked_up(root: Location, name: DataFileName) -> LookedUp:
    """The version that a batch looks letters up in: the current one, the first time it asks.

    Args:
        name: of the file with the version, which is the batch's alone. It is in the folder of
            `events` and never part of a table; vacuum removes it once the batch is over.
    """
    table = load_table(root / LEDGER[0])
    storage = (root / LEDGER[-1]).storage()

    def write(sink: Any) -> None:
        pq.write_table(pa.table({_VERSION: [table.version()]}), sink)

    if not storage.create(str(name), write):
        with storage.open(str(name)) as file:
            version = pq.ParquetFile(file).read()[_VERSION][0].as_py()
        if version != table.version():
            table = _at(root / LEDGER[0], version) or table
    return LookedUp(table.version(), ActiveFiles(table))


def _at(place: Location, version: int) -> DeltaTable | None:
    """A table at an earlier version; None if its log no longer has it."""
    try:
        return DeltaTable(place.url, version, storage_options=dict(place.options))
    except DeltaError:
        return None
