"""Tables with removed or repeated rows, and the findings of the balance."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables


def drawn(root):
    tables = Tables(str(root))
    try:
        return balance(tables)
    finally:
        tables.close()


def remove(root, name, condition, *, times=1):
    """Remove rows of a table from its files, behind Delta's back; returns how many."""
    tables = Tables(str(root))
    removed = 0
    for file in tables.files(name):
        path = Path(root) / name / file
        rows = pq.read_table(path)
        keep = [not condition(row) for row in rows.to_pylist()]
        removed += keep.count(False)
        if times == 2:
            rows = pa.concat_tables([rows, rows.filter([not one for one in keep])])
        else:
            rows = rows.filter(keep)
        pq.write_table(rows, path)
    return removed


def change(root, name, column, value, *, where):
    """Write another value into a column, where a column has a value, behind Delta's back."""
    key, wanted = where
    for file in Tables(str(root)).files(name):
        path = Path(root) / name / file
        rows = pq.read_table(path)
        values = [
            value if row[key] == wanted else row[column]
            for row in rows.select([key, column]).to_pylist()
        ]
        place = rows.schema.get_field_index(column)
        changed = pa.array(values, rows.schema.field(column).type)
        pq.write_table(rows.set_column(place, rows.schema.field(column), changed), path)


def repeat(root, name, condition):
    """Write rows a second time."""
    return remove(root, name, condition, times=2)


def named(found):
    return [(one.what, one.seq, one.message_id, one.queue, one.count) for one in found.findings]
