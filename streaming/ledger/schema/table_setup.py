"""Create and open the Delta tables, with properties that suit a stream of small commits.

Delta's defaults suit a few large commits an hour. At ten a second, the log determines the cost of a
commit: 0.18 ms per commit since the checkpoint that the handle was loaded from, 2.5 ms per thousand
files in the log folder, 1 ms per thousand files of the table (measured, see tests/bench).
Maintenance therefore keeps checkpoints frequent, the log short and files few.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from streaming.ledger.damaged_log import fault_of_log
from streaming.ledger.errors import DamagedLogError, TableMismatchError
from streaming.ledger.schema.schemas import COMMENT, TABLES, TableSpec
from streaming.storage.location import Location

_NEVER_EXPIRES: Final = "interval 36500 days"
"""Retention of batch numbers: if one expired, its batch could be committed again."""


@dataclass(frozen=True)
class Retention:
    """How long a table keeps log entries and removed files.

    Attributes:
        log_ms: how long log entries older than a checkpoint are kept. It bounds the number of files
            in the log folder and so the time of a commit. Readers need it while they load a table.
        removed_file_ms: how long the log remembers compacted files. Each adds 1.5 us to a
            checkpoint, and there are 100,000 an hour. Delta's own VACUUM uses it as its default;
            ours has its own setting.
    """

    log_ms: int = 60_000
    removed_file_ms: int = 600_000


def table_properties(spec: TableSpec, retention: Retention) -> dict[str, str]:
    """The Delta properties of a table."""
    return {
        "delta.appendOnly": str(spec.append_only).lower(),
        "delta.dataSkippingStatsColumns": ",".join(spec.stats_columns),
        "delta.setTransactionRetentionDuration": _NEVER_EXPIRES,
        "delta.logRetentionDuration": f"interval {retention.log_ms} milliseconds",
        "delta.deletedFileRetentionDuration": (
            f"interval {retention.removed_file_ms} milliseconds"
        ),
        "delta.enableExpiredLogCleanup": "false",  # maintenance cleans up, outside commits
        "delta.checkpointInterval": "100",  # for other writers; maintenance makes ours
    }


def delta_schema(spec: TableSpec) -> Schema:
    """The Delta schema of a table, comments included."""
    document = msgspec.json.decode(Schema.from_arrow(spec.schema).to_json())
    for field in document["fields"]:
        comment = (spec.schema.field(field["name"]).metadata or {}).get(COMMENT)
        if comment is not None:
            field["metadata"] = {"comment": comment.decode()}
    return Schema.from_json(msgspec.json.encode(document).decode())


def table_exists(place: Location) -> bool:
    """Whether there is a Delta table in a place."""
    return DeltaTable.is_deltatable(place.url, storage_options=dict(place.options))


def load_table(place: Location) -> DeltaTable:
    """Load the latest version of a table.

    Raises:
        deltalake.exceptions.TableNotFoundError: there is no table.
        DamagedLogError: an entry of its log is damaged or missing.
    """
    try:
        return DeltaTable(place.url, storage_options=dict(place.options))
    except TableNotFoundError:
        raise
    except DeltaError:
        folder = place.local_path()
        fault = None if folder is None else fault_of_log(folder)
        if fault is None:
            raise
        raise DamagedLogError(fault) from None


def open_table(root: Location, name: str, retention: Retention | None = None) -> DeltaTable:
    """Open a table below the tables' root; create it first if needed.

    Replay: opening a table again changes nothing. If two processes create it at once, one succeeds
    and both open it.

    Raises:
        TableMismatchError: its columns differ from this version's.
    """
    spec = TABLES[name]
    place = root / name
    properties = table_properties(spec, retention or Retention())
    local = place.local_path()
    if local is not None:
        local.mkdir(parents=True, exist_ok=True)
    try:
        table = load_table(place)
    except TableNotFoundError:
        _create(place, spec, properties)
        table = load_table(place)
    _bring_up_to_date(table, spec, properties)
    return table


def _create(place: Location, spec: TableSpec, properties: Mapping[str, str]) -> None:
    try:
        DeltaTable.create(
            place.url,
            delta_schema(spec),
            mode="error",
            name=spec.name,
            configuration=properties,
            storage_options=dict(place.options),
        )
    except DeltaError:
        if not table_exists(place):
            raise


def _bring_up_to_date(table: DeltaTable, spec: TableSpec, properties: Mapping[str, str]) -> None:
    found = pa.schema(table.schema().to_arrow())
    wanted = pa.schema(delta_schema(spec).to_arrow())
    for name in wanted.names:
        if name not in found.names:
            raise _mismatch(table, f"column {name!r} is missing")
        if found.field(name).type != wanted.field(name).type:
            raise _mismatch(
                table, f"column {name!r} is {found.field(name).type}, not {wanted.field(name).type}"
            )
    unknown = [name for name in found.names if name not in wanted.names]
    if unknown:
        raise _mismatch(table, f"column {unknown[0]!r} is unknown to this version")
    have = table.metadata().configuration
    changed = {key: value for key, value in properties.items() if have.get(key) != value}
    if changed:
        try:
            table.alter.set_table_properties(changed)
        except CommitFailedError:  # another process made the same change
            table.update_incremental()


def _mismatch(table: DeltaTable, problem: str) -> TableMismatchError:
    return TableMismatchError(
        f"{table.table_uri}: {problem}; these tables belong to another version of dlx: use that "
        "version, or give the job another folder for its tables"
    )
