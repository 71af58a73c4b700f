"""The names of the headers that dead letters have: what they can be grouped by."""

from typing import Final

import msgspec

from streaming.queries.dead_letters.filters import DeadLetterFilter, Selection
from streaming.queries.duckdb_tables import Tables, text

LOOKED_AT: Final = 10_000
"""Of more dead letters, only the latest are looked at."""

MAX_NAMES: Final = 40


def header_names(tables: Tables, wanted: DeadLetterFilter) -> list[str]:
    """The names of AMQP and Kafka headers, the most frequent first.

    Raises:
        QueryError: there is no such table, or `where` is not a valid condition.
    """
    nth = Selection(tables, wanted).values(
        'epoch_us("at")', f'ORDER BY "at" DESC LIMIT 1 OFFSET {LOOKED_AT - 1}'
    )
    condition = wanted.where or "true"
    if nth:
        condition = f'(\n{condition}\n) AND "at" >= make_timestamptz({nth[0][0]})'
    latest = Selection(tables, msgspec.structs.replace(wanted, where=condition))
    columns = "headers, list_transform(kafka_headers, lambda one: one.key) AS kafka"
    some = latest.query(columns, f"LIMIT {2 * LOOKED_AT}")
    names = "list_distinct(list_concat(coalesce(json_keys(headers), []), coalesce(kafka, [])))"
    found = tables.values(
        f"SELECT name FROM (SELECT unnest({names}) AS name FROM ({some})) "
        f"WHERE name <> {text('')} GROUP BY name ORDER BY count(*) DESC, name LIMIT {MAX_NAMES}"
    )
    return [name for (name,) in found]
