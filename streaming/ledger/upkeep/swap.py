"""Replacing files of a table by one with the same rows, safely beside other writers.

The new file is committed only while every file it replaces is still in the table. Delta's own check
does not see two rewrites of one file (deltalake 1.6: both succeed, and rows are there twice), so
ours exclude each other by a transaction identifier, and one by a foreign tool at the same instant
is found afterwards and ours undone.
"""

import time
from collections.abc import Sequence
from typing import Final

import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from streaming.ledger.errors import CommitError
from streaming.ledger.read.snapshot_files import ActiveFiles
from streaming.ledger.schema.schemas import TableSpec
from streaming.ledger.schema.table_setup import delta_schema, load_table
from streaming.ledger.storage import Place, Storage
from streaming.ledger.write.log_actions import QUIETLY, removal

TRANSACTIONS: Final = "dlx-compaction"
"""Application id under which rewrites exclude each other."""

_TRIES: Final = 20


def swap(place: Place, spec: TableSpec, added: AddAction, removed: Sequence[RemoveAction]) -> bool:
    """Commit a rewrite if all that it replaces is in the table."""
    for _ in range(_TRIES):
        table = load_table(place)
        if not {action.path for action in removed} <= set(ActiveFiles(table).paths):
            return False
        number = next_number(table)
        try:
            commit(table, spec, [added, *removed], number)
        except CommitFailedError:
            continue
        return not undone(place, spec, added, removed, table.version(), number)
    return False


def commit(
    table: DeltaTable,
    spec: TableSpec,
    actions: Sequence[AddAction | RemoveAction],
    number: int,
) -> None:
    """Commit a rewrite under its number; CommitFailedError if another has the number."""
    table.create_write_transaction(
        list(actions),
        "append",
        delta_schema(spec),
        commit_properties=CommitProperties(app_transactions=[Transaction(TRANSACTIONS, number)]),
        post_commithook_properties=QUIETLY,
    )


def undone(
    place: Place,
    spec: TableSpec,
    added: AddAction,
    removed: Sequence[RemoveAction],
    read_version: int,
    number: int,
) -> bool:
    """Take a rewrite back if a foreign one of the same files was committed just before it.

    Args:
        read_version: the version in which all replaced files were seen.
        number: of the rewrite.

    Returns:
        Whether it had to be. The rows are then where the other put them.
    """
    storage = place.storage()
    ours = {action.path for action in removed}
    overtaken = False
    version = read_version + 1
    while True:
        entries = _log_entries(storage, version)
        if entries is None or any(
            entry.txn is not None
            and (entry.txn.app_id, entry.txn.version) == (TRANSACTIONS, number)
            for entry in entries
        ):
            break
        overtaken |= any(
            entry.remove is not None and entry.remove.path in ours for entry in entries
        )
        version += 1
    if overtaken:
        _take_back(place, spec, added)
    return overtaken


def _take_back(place: Place, spec: TableSpec, added: AddAction) -> None:
    now_ms = time.time_ns() // 1_000_000
    undo = removal(added.path, added.size, now_ms)
    for _ in range(_TRIES):
        table = load_table(place)
        try:
            commit(table, spec, [undo], next_number(table))
        except CommitFailedError:
            continue
        return
    raise CommitError(
        f"{place.url}: {added.path} holds rows that another tool joined at the same time, and "
        "could not be taken back: they are there twice; remove that file from the table"
    )


def next_number(table: DeltaTable) -> int:
    """The number of the next rewrite."""
    return (table.transaction_version(TRANSACTIONS) or 0) + 1


class _Remove(msgspec.Struct):
    path: str


class _Txn(msgspec.Struct, rename="camel"):
    app_id: str
    version: int


class _Entry(msgspec.Struct):
    remove: _Remove | None = None
    txn: _Txn | None = None


def _log_entries(storage: Storage, version: int) -> list[_Entry] | None:
    try:
        with storage.open(f"_delta_log/{version:020}.json") as file:
            return msgspec.json.Decoder(_Entry).decode_lines(file.read())
    except FileNotFoundError:
        return None
