"""A user's SQL has a bound of memory, and says so."""

import resource

import pytest

from streaming.queries.duckdb_tables import Tables

LONG = "repeat({}, 3000000000) = 'b'"
"""DuckDB takes 8 GiB and minutes for this, if it may."""


@pytest.mark.parametrize(
    "command",
    [
        ("query", f"SELECT {LONG.format('left(queue, 1)')} FROM dead_letters"),
        ("dead-letters", "list", "--where", LONG.format("'a'")),
        ("dead-letters", "list", "--where", LONG.format("left(queue, 1)")),
        ("dead-letters", "summary", "--where", LONG.format("left(queue, 1)")),
        (
            "dead-letters",
            "groups",
            "--by",
            "cause",
            "--cause-sql",
            "repeat(left(queue, 1), 3000000000)",
        ),
        (
            "tables",
            "erase",
            "--reason",
            "request 4711",
            "--where",
            LONG.format("left(routing_key, 1)"),
        ),
    ],
    ids=" ".join,
)
def test_sql_that_needs_much_memory_is_refused_in_words(dlx, shop_root, command):
    before = resource.getrlimit(resource.RLIMIT_DATA), Tables.memory_bytes

    status, out, err = dlx(*command, "--tables", shop_root)

    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "emory" in err
    assert "Possible solutions" not in err
    assert "cannot be read" not in err
    assert (resource.getrlimit(resource.RLIMIT_DATA), Tables.memory_bytes) == before
