"""The Delta tables: made with the properties that a stream of small commits needs, and opened.

Delta's defaults suit a few large commits an hour. At ten a second, a commit is as dear as what lies
in the log: 0.18 ms for each commit since the checkpoint that the handle was loaded from, 2.5 ms for
each thousand files in the log's folder, 1 ms for each thousand files of the table (measured, see
tests/bench). Hence frequent checkpoints, a short log, and small files joined: see `maintenance`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from streaming.ledger.errors import TableMismatchError
from streaming.ledger.schema.schemas import COMMENT, TABLES, TableSpec
from streaming.ledger.storage import Place

_NEVER_EXPIRES: Final = "interval 36500 days"
"""Of the batch numbers in a table: one that expired would let its batch be committed again."""


@dataclass(frozen=True)
class Retention:
    """How long a table keeps what is no longer current.

    Attributes:
        log_ms: how long log entries behind a checkpoint stay. It bounds the files in the log's
            folder, hence the time of a commit; readers need it as long as loading a table takes.
        removed_file_ms: how long the log remembers files that were joined into others. Each makes a
            checkpoint 1.5 us dearer, and there are 100,000 an hour. Delta's own VACUUM takes it as
            its default; ours has a period of its own.
    """

    log_ms: int = 60_000
    removed_file_ms: int = 600_000


def table_properties(spec: TableSpec, retention: Retention) -> dict[str, str]:
    """Delta's properties of a table."""
    return {
        "delta.appendOnly": str(spec.append_only).lower(),
        "delta.dataSkippingStatsColumns": ",".join(spec.stats_columns),
        "delta.setTransactionRetentionDuration": _NEVER_EXPIRES,
        "delta.logRetentionDuration": f"interval {retention.log_ms} milliseconds",
        "delta.deletedFileRetentionDuration": (
            f"interval {retention.removed_file_ms} milliseconds"
        ),
        "delta.enableExpiredLogCleanup": "false",  # not inside a commit; maintenance cleans up
        "delta.checkpointInterval": "100",  # for other writers; ours are made by maintenance
    }


def delta_schema(spec: TableSpec) -> Schema:
    """The schema as Delta has it, comments included."""
    document = msgspec.json.decode(Schema.from_arrow(spec.schema).to_json())
    for field in document["fields"]:
        comment = (spec.schema.field(field["name"]).metadata or {}).get(COMMENT)
        if comment is not None:
            field["metadata"] = {"comment": comment.decode()}
    return Schema.from_json(msgspec.json.encode(document).decode())


def table_exists(place: Place) -> bool:
    """Whether there is a Delta table."""
    return DeltaTable.is_deltatable(place.url, storage_options=dict(place.options))


def load_table(place: Place) -> DeltaTable:
    """The table at its latest version.

    Raises:
        deltalake.exceptions.TableNotFoundError: there is none.
    """
    return DeltaTable(place.url, storage_options=dict(place.options))


def open_table(root: Place, name: str, retention: Retention | None = None) -> DeltaTable:
    """Open a table below the tables' root; make it, or bring it up to date, where needed.

    Replay: opening twice changes nothing the second time; of two that make it at once, one does.

    Raises:
        TableMismatchError: its columns are not, and cannot be made, those of this version.
    """
    spec = TABLES[name]
    place = root.below(name)
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


def _create(place: Place, spec: TableSpec, properties: Mapping[str, str]) -> None:
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
    missing = [name for name in wanted.names if name not in found.names]
    for name in wanted.names:
        if name in missing:
            if not wanted.field(name).nullable:
                raise _mismatch(table, f"column {name!r} is missing and cannot be added")
        elif found.field(name).type != wanted.field(name).type:
            raise _mismatch(
                table,
                f"column {name!r} is {found.field(name).type}, not {wanted.field(name).type}",
            )
    unknown = [name for name in found.names if name not in wanted.names]
    if unknown:
        raise _mismatch(table, f"column {unknown[0]!r} is not known to this version")
    if missing:
        fields = [field for field in delta_schema(spec).fields if field.name in missing]
        table.alter.add_columns(fields)
    have = table.metadata().configuration
    changed = {key: value for key, value in properties.items() if have.get(key) != value}
    if changed:
        try:
            table.alter.set_table_properties(changed)
        except CommitFailedError:  # another did the same at the same instant
            table.update_incremental()


def _mismatch(table: DeltaTable, problem: str) -> TableMismatchError:
    return TableMismatchError(
        f"{table.table_uri}: {problem}; these tables belong to another version of dlx: use that "
        "one, or give the job another folder for its tables"
    )
