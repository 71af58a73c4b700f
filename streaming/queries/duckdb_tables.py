"""The tables as DuckDB views: Delta names the files of a table, DuckDB reads them.

    Delta log --deltalake--> files and their statistics --> read_parquet([...]) as a view

Nothing here imports pyarrow, pandas or Spark, which would take longer to load than the query takes.
In shared storage DuckDB reads the parts of the files that a query needs (`shared_files`). If a
table has deletion vectors, deltalake reads it into a temporary table instead, which is slower.
"""

import tempfile
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar

import duckdb
import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from streaming.queries.cut import Cut
from streaming.queries.damage import fault_of_data, fault_of_delta, lacking_columns, one_line
from streaming.queries.known_tables import KnownTables, LoadedTable
from streaming.queries.read_rights import ReadRights
from streaming.storage.location import local_path
from topology.errors import DlxError

Row = dict[str, Any]
T = TypeVar("T")

_TYPES: Final = {
    "string": "VARCHAR",
    "binary": "BLOB",
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
DELETION_VECTORS: Final = "deletionVectors"
"""The feature of tables whose files have rows that were removed."""


class QueryError(DlxError):
    """A query cannot be answered: a table is missing, or the query has a mistake."""


class NoTableError(QueryError):
    """There is no such table."""


class BeforeHistoryError(QueryError):
    """An instant is earlier than what the tables know: not even that there was nothing.

    Attributes:
        first: the first instant that they know; None: they do not say.
    """

    def __init__(self, text: str, first: datetime | None) -> None:
        super().__init__(text, first)  # all arguments: the error can be pickled
        self.first = first

    def __str__(self) -> str:
        return str(self.args[0])


class Tables:
    """The tables in one folder. Each is loaded on first use and then stays at that version.

    Methods that take a table's name raise QueryError if there is no such table. A `with` block
    closes the tables; an error that a damaged file caused becomes a QueryError that names the file.

    Args:
        root: a path, or a URL such as `s3://bucket/tables`.
        threads: threads of DuckDB; None: one per core.
        engine: of `new_engine`, which nothing else uses until the tables are closed and which
            stays open then; None: one of its own, with `threads`.
        known: what an earlier question has loaded, of which nothing else asks until the tables are
            closed; None: nothing.

    Attributes:
        memory_bytes: the most memory that DuckDB takes in a query of this process; None: a share of
            the machine's. Beyond, it writes to temporary files.
        connection: queries the views; instants are UTC.
        options: storage options, as deltalake takes them.
        cut: where the history ends that the views show; None: at the last batch.
        vhosts: the views show rows of these vhosts only, and rows of none; None: all rows.
        rights: the views hide what this user may not read; None: nothing.
        collected: which moves `current_contents` has collected into temporary tables, and what it
            has found.
    """

    memory_bytes: ClassVar[int | None] = None

    def __init__(
        self,
        root: str,
        options: Mapping[str, str] | None = None,
        *,
        threads: int | None = None,
        engine: duckdb.DuckDBPyConnection | None = None,
        known: KnownTables | None = None,
    ) -> None:
        self.root = root
        self.options = dict(options or {})
        self._earlier = KnownTables() if known is None else known
        self._loaded: dict[str, LoadedTable] = {}
        self.cut: Cut | None = None
        self.vhosts: frozenset[str] | None = None
        self.rights: ReadRights | None = None
        self.collected: tuple[object, Any] | None = None
        self._views = 0
        self._known: dict[str, Any] = {}
        self.connection = new_engine(threads) if engine is None else engine.cursor()
        self.connection.execute("SET TimeZone = 'UTC'")
        if self.memory_bytes is not None and engine is None:
            self.connection.execute(f"SET memory_limit = '{self.memory_bytes}B'")
        self._has_shared_files = False
        self._read: dict[str, set[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the tables.

        Raises:
            QueryError: the error is that a file or column is missing or damaged, or that DuckDB
                had no room.
        """
        try:
            fault = None if error is None else self.fault(error)
        finally:
            self.close()
        if fault is not None:
            raise fault from None

    def damage(self, error: duckdb.Error) -> QueryError | None:
        """The error for the user if a data file is the cause of DuckDB's; else None."""
        said = fault_of_data(error, self._read, self.connection)
        return None if said is None else QueryError(said)

    def fault(self, error: BaseException) -> QueryError | None:
        """The error for the user if the tables or the machine are the cause; else None."""
        if isinstance(error, duckdb.InterruptException):
            return None
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
            why = one_line(error).removeprefix("Out of Memory Error: ").rstrip(".")
            return QueryError(f"there is not enough memory for this: ask for less at once ({why})")
        damage = self.damage(error) if isinstance(error, duckdb.Error) else None
        if damage is not None:
            return damage
        if isinstance(error, duckdb.ProgrammingError | KeyError):
            said = self._lacking()
            if said is not None:
                return QueryError(said)
        if isinstance(error, duckdb.OperationalError):
            return QueryError(f"{self.root}: the tables cannot be read: {one_line(error)}")
        return None

    def _lacking(self) -> str | None:
        """Which columns a table lacks that was used; None if they have all."""
        for name, loaded in self._loaded.items():
            names = {one.name for one in loaded.table.schema().fields}
            said = lacking_columns(self._url(name), names)
            if said is not None:
                return said
        return None

    def _url(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"

    @contextmanager
    def uncut(self) -> Iterator[None]:
        """Let the views that the block creates end at the last batch, whatever the cut is."""
        cut, self.cut = self.cut, None
        try:
            yield
        finally:
            self.cut = cut

    def close(self) -> None:
        """Release memory and files."""
        self.connection.close()

    def once(self, what: str, compute: Callable[[], T]) -> T:
        """Return what is computed of the tables, or was with the same cut and vhosts.

        Args:
            what: names it, with all that it depends on besides.
        """
        vhosts = None if self.vhosts is None else sorted(self.vhosts)
        key = f"{what} {self.cut} {vhosts}"
        if key not in self._known:
            self._known[key] = compute()
        found: T = self._known[key]
        return found

    def table(self, name: str) -> DeltaTable:
        """A table, at the version that this snapshot has of it."""
        return self._load(name).table

    def of_files(self, name: str, column: str) -> list[Any] | None:
        """See `LoadedTable`: what the log says of each data file of a table."""
        return self._load(name).of_files(column)

    def _load(self, name: str) -> LoadedTable:
        loaded = self._loaded.get(name)
        if loaded is None:
            url, root = self._url(name), local_path(self.root)
            try:
                loaded = self._earlier.load(url, self.options)
            except TableNotFoundError:
                raise NoTableError(self._no_table(name)) from None
            except (DeltaError, OSError) as error:
                folder = None if root is None else root / name
                raise QueryError(fault_of_delta(url, folder, error)) from None
            self._loaded[name] = loaded
        return loaded

    def has(self, name: str) -> bool:
        """Whether a table exists.

        Raises:
            QueryError: it exists and cannot be read.
        """
        try:
            self.table(name)
        except NoTableError:
            return False
        return True

    def _no_table(self, name: str) -> str:
        root = local_path(self.root)
        if root is not None and (root / "tables" / name).is_dir():
            hint = f"; {root / 'tables'} has one: use --tables {root / 'tables'}"
        else:
            hint = (
                "; set --tables to the folder with one folder per table: tables_location in "
                "dlx.toml, or DIR/tables of a demo"
            )
        return f"{self.root}: there is no table {name!r} here{hint}"

    def files(
        self,
        name: str,
        above: Mapping[str, int | datetime] | None = None,
        *,
        inclusive: bool = False,
        up_to: Mapping[str, int] | None = None,
        kinds: Collection[str] = (),
    ) -> list[str]:
        """The data files of a table, relative to its folder, without those beyond the cut.

        Args:
            above: skip files whose largest value of a column is known not to be above this.
            inclusive: whether an equal value counts as above.
            up_to: skip files whose least value of a column is known to be above this.
            kinds: skip files that are known to have no row of any of these kinds.
        """
        files = self.of_files(name, "path") or []
        keep = [True] * len(files)
        for column, bound in (above or {}).items():
            for index, most in enumerate(self.of_files(name, f"max.{column}") or ()):
                keep[index] &= most is None or most > bound or (inclusive and most == bound)
        for column, bound in (up_to or {}).items():
            for index, least in enumerate(self.of_files(name, f"min.{column}") or ()):
                keep[index] &= least is None or least <= bound
        nothing = [None] * len(files)
        if kinds:
            bounds = (self.of_files(name, f"{end}.kind") or nothing for end in ("min", "max"))
            for index, (least, most) in enumerate(zip(*bounds, strict=True)):
                if least is not None and most is not None:
                    keep[index] &= any(least <= kind <= most for kind in kinds)
        if self.cut is not None:
            first = self.of_files(name, "min.batch_id") or nothing
            since = self.of_files(name, "min.at") or nothing
            for index, least in enumerate(zip(first, since, strict=True)):
                keep[index] &= self.cut.may_see(name, *least)
        return [file for file, kept in zip(files, keep, strict=True) if kept]

    def view(
        self,
        name: str,
        *,
        files: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        view: str | None = None,
    ) -> str:
        """Create or replace a view of a table, without what lies beyond the cut.

        Args:
            files: read only these files, if DuckDB reads the table directly; None: all.

        Returns:
            The name of the view.
        """
        table = self.table(name)
        view = view or name
        document = msgspec.json.decode(table.schema().to_json())
        kinds = {field["name"]: _duckdb_type(field["type"]) for field in document["fields"]}
        chosen = list(kinds if columns is None else columns)
        conditions = [] if self.cut is None else [self.cut.condition(name) or "true"]
        read = {*chosen, *(self.cut.columns(name) if self.cut is not None else ())}
        if self.vhosts is not None and "vhost" in kinds:
            conditions.append(f"(vhost IS NULL OR vhost IN ({_texts(self.vhosts)}))")
            read.add("vhost")
        mask = None if self.rights is None else self.rights.masks.get(name)
        shown = dict(zip(chosen, map(quoted, chosen), strict=True))
        if mask is not None and not shown.keys().isdisjoint(mask.columns):
            read.update(mask.needs)
            for column in shown.keys() & mask.columns:
                shown[column] = f"CASE WHEN {mask.condition} THEN {quoted(column)} END AS {column}"
        kinds = {column: kind for column, kind in kinds.items() if column in read}
        select = f"SELECT {', '.join(shown.values())} FROM "
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        paths = self.paths(name, self.files(name) if files is None else files)
        if paths is None:
            self.drop(view)
            self.connection.register("dlx_scan", table.scan(columns=list(kinds)))
            self.connection.execute(f"CREATE TEMP TABLE {quoted(view)} AS {select} dlx_scan{where}")
            self.connection.unregister("dlx_scan")
        else:
            self.define(view, f"{select} ({_source(kinds, paths)}){where}")
        return view

    def define(self, view: str, query: str) -> None:
        """Create a view, or replace a view or a temporary table."""
        create = f"CREATE OR REPLACE TEMP VIEW {quoted(view)} AS {query}"
        try:
            self.connection.execute(create)
        except duckdb.CatalogException:  # a table, unless the query is wrong
            self.drop(view)
            self.connection.execute(create)

    def paths(self, name: str, files: Iterable[str]) -> list[str] | None:
        """Paths with which DuckDB reads files of a table; None if deltalake must read the table."""
        features = self.table(name).protocol().reader_features or ()
        if DELETION_VECTORS in features:
            return None
        read = self._read.setdefault(name, set())
        root = local_path(self.root)
        if root is not None:
            paths = [str(root / name / file) for file in files]
            read.update(paths)
            return paths
        from streaming.queries.shared_files import SharedFiles, shared_path  # noqa: PLC0415 - slow

        if not self._has_shared_files:
            self.connection.register_filesystem(SharedFiles(self.root, self.options))
            self._has_shared_files = True
        paths = [shared_path(name, file) for file in files]
        read.update(paths)
        return paths

    def new_name(self, name: str) -> str:
        """A name for a view that no other question replaces."""
        self._views += 1
        return f"{name}_{self._views}"

    def drop(self, view: str) -> None:
        """Drop a view or a temporary table, if it exists."""
        for kind in ("VIEW", "TABLE"):
            try:
                self.connection.execute(f"DROP {kind} IF EXISTS {quoted(view)}")
            except duckdb.CatalogException:  # it exists and is of the other kind
                continue

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """The rows of a query as plain values: instants as text; bytes must be encoded."""
        document = f"SELECT CAST(to_json(answer) AS VARCHAR) FROM ({sql}) AS answer"
        found = self.connection.execute(document, list(parameters)).fetchall()
        return [msgspec.json.decode(row) for (row,) in found]

    def values(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query without instants and nested columns."""
        return self.connection.execute(sql, list(parameters)).fetchall()


def new_engine(threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """DuckDB without data: it takes 15 ms of processor time, and a cursor of it hardly any."""
    engine = duckdb.connect()
    engine.execute("SET preserve_insertion_order = false")
    overflow = f"{tempfile.gettempdir()}/dlx-duckdb-{uuid.uuid4().hex}"  # DuckDB creates it
    engine.execute(f"SET temp_directory = {text(overflow)}")
    if threads is not None:
        engine.execute(f"SET threads = {threads}")
    return engine


def default_memory_bytes() -> int:
    """The most memory that DuckDB takes by itself: a share of the machine's, or the container's."""
    with duckdb.connect() as connection:
        [(found,)] = connection.execute(
            "SELECT parse_formatted_bytes(current_setting('memory_limit'))"
        ).fetchall()
    return int(found)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def _texts(values: Iterable[str]) -> str:
    """Texts as the inside of a list in SQL; NULL if there are none."""
    return ", ".join(map(text, sorted(values))) or "NULL"


def iso(instant: str | None) -> str | None:
    """An instant of `Tables.rows` in ISO 8601: `2026-03-01T12:00:00.250Z`."""
    if instant is None:
        return None
    day, _, time = instant.removesuffix("+00").partition(" ")
    clock, _, fraction = time.partition(".")
    return f"{day}T{clock}.{fraction.ljust(3, '0')}Z"


def _duckdb_type(kind: Any) -> str:
    if isinstance(kind, str):
        return _TYPES.get(kind, kind.upper())
    match kind["type"]:
        case "struct":
            members = (
                f"{quoted(one['name'])} {_duckdb_type(one['type'])}" for one in kind["fields"]
            )
            return f"STRUCT({', '.join(members)})"
        case "array":
            return f"{_duckdb_type(kind['elementType'])}[]"
        case _:
            return f"MAP({_duckdb_type(kind['keyType'])}, {_duckdb_type(kind['valueType'])})"


def _source(kinds: Mapping[str, str], paths: Sequence[str]) -> str:
    """A query for all rows of files; columns that a file lacks are null."""
    if not paths:
        columns = ", ".join(
            f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in kinds.items()
        )
        return f"SELECT {columns} WHERE false"
    schema = ", ".join(
        f"{text(name)}: {{name: {text(name)}, type: {text(kind)}, default_value: NULL}}"
        for name, kind in kinds.items()
    )
    files = ", ".join(text(path) for path in paths)
    return f"FROM read_parquet([{files}], schema = MAP {{{schema}}})"
