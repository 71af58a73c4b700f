"""A sandbox for the SQL of users: it only reads, and only the tables of this job.

    text --DuckDB's parser--> tree: known views, harmless functions --> a connection without files

Two guards stand behind each other. A query is refused by what its parsed form contains. If that
misses something, the connection itself opens no file but those of the tables, loads nothing, and
its settings are locked. Memory and time are limited by the reader.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

import duckdb
import msgspec

from streaming.queries.damage import one_line
from streaming.queries.duckdb_tables import QueryError, Tables, text
from streaming.storage.location import local_path

MAX_CHARACTERS: Final = 10_000

_TABLE_FUNCTIONS: Final = frozenset(
    {"range", "generate_series", "unnest", "json_each", "json_tree", "repeat"}
)
"""The functions that may stand in FROM; none of them opens anything."""

_SCALARS: Final = frozenset(
    {"current_setting", "getenv", "getvariable", "write_log", "sleep_ms", "pg_sleep", "nextval"}
    | {"setval", "currval", "setseed", "current_query", "json_deserialize_sql"}
)
"""Functions that do more than compute with their arguments."""


def require_harmless(
    tables: Tables, sql: str, names: Collection[str], *, queries: bool = True
) -> None:
    """Refuse anything but one query that only reads these names.

    Args:
        names: of the views.
        queries: whether there may be queries inside the query.

    Raises:
        QueryError: it has a mistake, or asks for more.
    """
    if len(sql) > MAX_CHARACTERS:
        raise QueryError(f"the SQL is longer than {MAX_CHARACTERS} characters: shorten it")
    try:
        [(tree,)] = tables.connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
        document = msgspec.json.decode(tree)
    except (duckdb.Error, RecursionError, msgspec.DecodeError) as error:
        raise QueryError(f"not valid SQL: {one_line(error)}") from None
    if document["error"]:
        said = " ".join(str(document.get("error_message", "")).split())
        if document.get("error_type") == "not implemented":
            said = "only a query is allowed: SELECT, FROM, WITH, DESCRIBE or SUMMARIZE"
        raise QueryError(f"not valid SQL: {said}")
    if len(document["statements"]) != 1:
        raise QueryError("expected one query, such as 'FROM dead_letters LIMIT 5'")
    nodes = list(_nodes(document["statements"]))
    own = {
        str(entry.get("key")).lower()
        for node in nodes
        for entry in (node.get("cte_map") or {}).get("map") or ()
    }
    allowed = {name.lower() for name in names} | own
    for node in nodes:
        _check(node, allowed, queries=queries)


def require_no_detour(tables: Tables, name: str, columns: str = "1", condition: str = "") -> None:
    """Refuse SQL of a user from whom the tables hide something, if it could read the files.

    Args:
        name: of the only view.
        columns, condition: the user's, either of them.

    Raises:
        QueryError: it has a mistake, or asks for more than the columns of the view.
    """
    if tables.rights is None or not tables.rights.hidden:
        return
    where = f"WHERE\n{condition}\n" if condition else ""
    query = f"SELECT\n{columns}\nFROM {name} {where}"
    require_harmless(tables, query, {name}, queries=False)


def _check(node: dict[str, Any], allowed: Collection[str], *, queries: bool) -> None:
    kind = node.get("type")
    if kind == "BASE_TABLE":
        name = str(node.get("table_name"))
        if node.get("schema_name") or node.get("catalog_name") or name.lower() not in allowed:
            raise QueryError(f"there is no view {name!r}: {', '.join(sorted(allowed))}")
    elif kind == "TABLE_FUNCTION":
        name = str((node.get("function") or {}).get("function_name"))
        if name.lower() not in _TABLE_FUNCTIONS:
            raise QueryError(f"the function {name!r} is refused here: a query reads the views only")
    elif kind == "SUBQUERY" and not queries:
        raise QueryError("a query inside the condition is refused: it could read what is hidden")
    if node.get("class") == "FUNCTION" and str(node.get("function_name")).lower() in _SCALARS:
        name = str(node.get("function_name"))
        raise QueryError(f"the function {name!r} is refused here: it does more than compute")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a parsed query."""
    work = [tree]
    while work:
        one = work.pop()
        if isinstance(one, dict):
            yield one
            work.extend(one.values())
        elif isinstance(one, list):
            work.extend(one)


def sandbox(tables: Tables) -> None:
    """Close a connection to every file but those of the tables, for good."""
    run = tables.connection.execute
    root = local_path(tables.root)
    if root is not None:
        run(f"SET allowed_directories = [{text(str(root))}]")
    run("SET max_temp_directory_size = '1GB'")
    run("SET python_enable_replacements = false")
    run("SET enable_external_access = false")
    run("SET lock_configuration = true")
