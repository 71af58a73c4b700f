"""The answer to a question: DuckDB computes it when it is read, as rows, Arrow or for Spark."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import duckdb
import msgspec

from streaming.queries.duckdb_tables import Row, Tables
from streaming.queries.message_attributes import as_json

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS: Final = 10_000
"""Rows of a record batch."""

_FIRST_ROWS: Final = 100
"""Rows that are fetched at once from an answer of any size."""


class QueryResult:
    """The answer to a question about the tables.

    It is computed each time it is read, always at the version that the tables had when they were
    opened. Read one answer of an open folder at a time: the next question ends an iteration.
    """

    def __init__(
        self,
        tables: Tables,
        sql: str,
        *,
        encode: str = "",
        plain: Callable[[Row], Row] | None = None,
        explain: Callable[[Exception], Exception] | None = None,
    ) -> None:
        self._tables = tables
        self._sql = sql
        self._encode = encode
        self._plain = plain
        self._explain = explain

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows as plain values, as `dlx` prints them in JSON."""
        try:
            yield from self._rows()
        except (duckdb.DataError, duckdb.ProgrammingError) as error:
            raise self._tables.damage(error) or self._explained(error) from None

    def rows(self) -> list[Row]:
        """The rows as plain values: instants in ISO 8601, bytes as text or typed JSON."""
        return list(self)

    def count(self) -> int:
        """The number of rows."""
        [(count,)] = self._tables.values(f"SELECT count(*) FROM ({self._sql})")
        return int(count)

    def relation(self) -> duckdb.DuckDBPyRelation:
        """The answer as a relation of DuckDB, to filter, join and aggregate further."""
        return self._tables.connection.sql(self._sql)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.relation().columns)

    def to_arrow(self) -> "pa.Table":
        """The answer as an Arrow table; nested columns, instants and bytes keep their types."""
        try:
            return self.relation().to_arrow_table()
        except (duckdb.DataError, duckdb.ProgrammingError) as error:
            raise self._tables.damage(error) or self._explained(error) from None

    def batches(self, batch_rows: int = BATCH_ROWS) -> "pa.RecordBatchReader":
        """The answer as Arrow record batches, which need little memory."""
        return self.relation().to_arrow_reader(batch_rows)

    def to_spark(self, session: Any) -> Any:
        """The answer as a data frame of a Spark session."""
        return session.createDataFrame(self.to_arrow())

    def _rows(self) -> Iterator[Row]:
        run = self._tables.connection.execute
        if self._plain is None:
            cursor = run(self._sql)
            names = [str(column[0]) for column in cursor.description or ()]
            while found := cursor.fetchmany(_FIRST_ROWS):
                for row in found:
                    yield dict(zip(names, map(plain, row), strict=True))
            return
        replaced = f" REPLACE ({self._encode})" if self._encode else ""
        sql = f"SELECT *{replaced} FROM ({self._sql})"
        cursor = run(f"SELECT CAST(to_json(answer) AS VARCHAR) FROM ({sql}) AS answer")
        while found := cursor.fetchmany(_FIRST_ROWS):
            for (text,) in found:
                yield self._plain(msgspec.json.decode(text))

    def _explained(self, error: Exception) -> Exception:
        return error if self._explain is None else self._explain(error)


class RowsResult:
    """An answer that is there at once, row by row, and reads like a `QueryResult`.

    In Arrow, and for Spark, values that are objects or lists are text in JSON.
    """

    def __init__(self, tables: Tables, rows: list[Row]) -> None:
        self._tables = tables
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows as plain values, as `dlx` prints them in JSON."""
        return iter(self._rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._rows)

    def rows(self) -> list[Row]:
        """The rows as plain values."""
        return list(self._rows)

    def count(self) -> int:
        """The number of rows."""
        return len(self._rows)

    @property
    def columns(self) -> list[str]:
        """The names of the columns; none if there is no row."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    def relation(self) -> duckdb.DuckDBPyRelation:
        """The answer as a relation of DuckDB, to filter, join and aggregate further."""
        return self._tables.connection.from_arrow(self.to_arrow())

    def to_arrow(self) -> "pa.Table":
        """The answer as an Arrow table."""
        import pyarrow as pa  # noqa: PLC0415 - most answers need none

        return pa.table(
            {name: [_cell(row.get(name)) for row in self._rows] for name in self.columns}
        )

    def to_spark(self, session: Any) -> Any:
        """The answer as a data frame of a Spark session."""
        return session.createDataFrame(self.to_arrow())


def _cell(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


def plain(value: Any) -> Any:
    """A value of DuckDB as JSON has it."""
    match value:
        case datetime():
            instant = value.astimezone(UTC) if value.tzinfo else value
            text = instant.isoformat(timespec="milliseconds" if _is_whole(instant) else "auto")
            return text.removesuffix("+00:00") + "Z" if value.tzinfo else text
        case bytes() | bytearray() | memoryview():
            return as_json(bytes(value))
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case float() if not isfinite(value):
            return str(value)
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case date() | time() | timedelta() | UUID():
            return str(value)
    return value


def _is_whole(instant: datetime) -> bool:
    return instant.microsecond % 1000 == 0
