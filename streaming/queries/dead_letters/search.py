"""Search dead letters: how many there are, the largest values of each attribute, and one page.

The counts come first and read few columns; only the rows of the page are read whole.
"""

from typing import Final

import msgspec

from streaming.queries.dead_letters.filters import DeadLetterFilter, Selection
from streaming.queries.dead_letters.letters import KEY, is_one_of, order_of, plain_row
from streaming.queries.duckdb_tables import Row, Tables
from streaming.queries.message_attributes import ENCODED
from streaming.queries.result import QueryResult

FACETS: Final = ("vhost", "queue", "reason", "exchange", "outcome")
"""The attributes that are counted; a cause takes too long for every search."""

TOP: Final = 8
"""How many values of an attribute are listed."""

_EMPTY: Final = {"exchange": "(default)", "outcome": "dead_lettered"}
"""What an empty text of an attribute stands for."""


class Facet(msgspec.Struct, frozen=True):
    """One value of an attribute.

    Attributes:
        name: the value for people.
    """

    value: str
    name: str
    count: int


class Found(msgspec.Struct, frozen=True):
    """The answer to a search.

    Attributes:
        total: how many dead letters match.
        facets: attribute -> its values, the largest first.
        rows: one page, the latest death first.
    """

    total: int
    facets: dict[str, list[Facet]]
    rows: list[Row]


def search(tables: Tables, wanted: DeadLetterFilter, first: int, count: int) -> Found:
    """Count the dead letters that a filter matches, and read one page of them.

    Args:
        first: how many rows precede the page.
        count: how many rows the page has.

    Raises:
        QueryError: there is no such table, or `where` is not a valid condition.
    """
    selection = Selection(tables, wanted)
    numbers = ", ".join(f"grouping({name})" for name in FACETS)
    sets = ", ".join(f"({name})" for name in FACETS)
    found = selection.values(
        f"{numbers}, {', '.join(FACETS)}, count(*) AS letters",
        f"GROUP BY GROUPING SETS ({sets}, ()) "
        f"QUALIFY row_number() OVER (PARTITION BY {numbers} "
        f"ORDER BY count(*) DESC, {', '.join(FACETS)}) <= {TOP}",
    )
    total = 0
    facets: dict[str, list[Facet]] = {name: [] for name in FACETS}
    for row in found:
        flags, values = row[: len(FACETS)], row[len(FACETS) : -1]
        letters = int(str(row[-1]))
        chosen = next((place for place, flag in enumerate(flags) if flag == 0), None)
        if chosen is None:
            total = letters
        elif values[chosen] is not None:
            name, value = FACETS[chosen], str(values[chosen])
            facets[name].append(Facet(value, value or _EMPTY.get(name, value), letters))
    for values_of in facets.values():
        values_of.sort(key=lambda one: (-one.count, one.value))
    page = f"{order_of(wanted)} LIMIT {count} OFFSET {first}"
    keys = selection.values(KEY, page) if first < total else []
    sql = f"SELECT * FROM {selection.source} WHERE {is_one_of(keys)} {order_of(wanted)}"
    result = QueryResult(tables, sql, encode=ENCODED, plain=plain_row, explain=selection.explained)
    return Found(total, facets, result.rows() if keys else [])
