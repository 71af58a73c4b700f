"""Why tables cannot be read, in words that name the file: missing, damaged, or of other columns.

DuckDB names the file in most of its errors. Where it does not, the files of the query are tried one
by one, for a limited time.
"""

import re
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import duckdb

from streaming.ledger.damaged_log import DERIVED, RESTORE, fault_of_log, remedy

SEARCH_S: Final = 20.0
"""How long a damaged file is looked for that DuckDB does not name."""

_NAMED: Final = re.compile(r"""["']([^"']+)["']""")
_MISSING: Final = re.compile(
    r"no files found|cannot open file|no such file|not found", re.IGNORECASE
)
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
"""deltalake colours its errors, even in files."""

_OF_FILES: Final = (duckdb.IOException, duckdb.InvalidInputException, duckdb.DataError)


def one_line(error: BaseException) -> str:
    """What DuckDB says about a mistake, without the picture of its place and settings to try."""
    said = re.split(r"\n+LINE \d+:|\n+Possible solutions:", str(error))[0]
    return " ".join(said.split()).replace("! Candidate", ". Candidate")


def fault_of_data(
    error: duckdb.Error, read: Mapping[str, Collection[str]], connection: duckdb.DuckDBPyConnection
) -> str | None:
    """The data file that an error is about, and what to do; None if it is about no file.

    Args:
        read: the paths of the files that were read, by table.
    """
    tables = {path: table for table, paths in read.items() for path in paths}
    path = next((one for one in _NAMED.findall(str(error)) if one in tables), None)
    if path is None:
        is_of_a_file = type(error) is duckdb.Error or "parquet" in str(error).lower()
        path, error = (is_of_a_file and _found(tables, connection)) or ("", error)
    if not path:
        return None
    table = tables[path]
    if _MISSING.search(str(error)):
        return f"{path}: this file of the table {table} is missing: {_remedy(table)}"
    said = one_line(error).replace(f'"{path}"', "this file").replace(f"'{path}'", "this file")
    return f"{path}: this file of the table {table} is damaged ({said}): {_remedy(table)}"


def _found(
    tables: Mapping[str, str], connection: duckdb.DuckDBPyConnection
) -> tuple[str, duckdb.Error] | None:
    """The first file that cannot be read, and why; None if none was found in time."""
    end = time.monotonic() + SEARCH_S
    for path in tables:
        if time.monotonic() > end:
            break
        try:
            connection.execute("SELECT count(COLUMNS(*)) FROM read_parquet([?])", [path]).fetchall()
        except duckdb.Error as error:
            is_its_fault = type(error) is duckdb.Error or isinstance(error, _OF_FILES)
            return (path, error) if is_its_fault else None
    return None


def _remedy(table: str) -> str:
    if table == DERIVED:
        return "`dlx tables rebuild` makes the table again from events"
    return f"ask again if the job runs; if it stays, {RESTORE}"


def fault_of_delta(url: str, folder: Path | None, error: Exception) -> str:
    """Why Delta cannot read a table, and what to do.

    Args:
        folder: that of the table, if it is on this machine.
    """
    said = _COLOURS.sub("", str(error)).strip().split("\n")[0]
    what = f"{url}: cannot be read as a Delta table: {said}"
    if folder is None:
        return f"{what}: check the address and tables.storage_options, or {remedy(url)}"
    return fault_of_log(folder) or f"{what}: {remedy(url)}"


def lacking_columns(url: str, columns: Collection[str]) -> str | None:
    """Which columns a table lacks that this version of dlx has, and what to do; None if it has all.

    Args:
        columns: those that it has.
    """
    from streaming.ledger.schema.schemas import TABLES  # noqa: PLC0415 - loads pyarrow

    spec = TABLES.get(url.rpartition("/")[2])
    missing = [] if spec is None else [one for one in spec.schema.names if one not in columns]
    if not missing:
        return None
    names = ", ".join(missing)
    return (
        f"{url}: the table lacks the column{'s' if missing[1:] else ''} {names}: start the job "
        "with this version of dlx, which adds what is missing, or restore the table"
    )
