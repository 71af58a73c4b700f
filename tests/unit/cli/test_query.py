"""`dlx query`: one statement, statements from stdin, and the shell in a terminal."""

import csv
import io
import json
import os
import select
import subprocess
import sys

import pytest

COMMAND = (sys.executable, "-P", "-m", "streaming.cli", "query")


@pytest.fixture
def query(dlx, shop_root):
    """A function that asks the shop's tables."""
    return lambda *arguments: dlx("query", *arguments, "--tables", shop_root)


@pytest.fixture
def piped(shop_root):
    """A function that gives the command a text on stdin."""

    def run(text, *options):
        return subprocess.run(
            (*COMMAND, "--tables", shop_root, *options),
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_statement_is_answered_as_a_table_as_json_and_as_csv(query):
    sql = "SELECT queue, reason, targets, \"at\" FROM dead_letters WHERE queue = 'mail'"
    instant = "2020-09-13T12:26:40.500Z"

    assert query(sql)[1].splitlines()[1].split() == ["mail", "expired", "dead", instant]
    assert json.loads(query(sql, "-o", "json")[1]) == {
        "queue": "mail",
        "reason": "expired",
        "targets": ["dead"],
        "at": instant,
    }
    assert list(csv.reader(io.StringIO(query(sql, "-o", "csv")[1]))) == [
        ["queue", "reason", "targets", "at"],
        ["mail", "expired", '["dead"]', instant],
    ]


def test_every_table_and_view_can_be_asked(query):
    status, out, _ = query("SHOW TABLES", "--json")

    assert status == 0
    assert {json.loads(line)["name"] for line in out.splitlines()} == {
        *("messages", "events", "dead_letters", "queue_contents", "quarantine", "queued_messages"),
        "foreign_dead_letters",
    }
    for name in ("quarantine", "queued_messages"):
        assert query(f"SELECT count(*) FROM {name}")[0] == 0
    assert "order 5" in query("SELECT decode(body) FROM queued_messages")[1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("NULL", None),
        ("true", True),
        ("1.5::DECIMAL(4,2)", 1.5),
        ("170141183460469231731687303715884105727::HUGEINT", 2**127 - 1),
        ("'nan'::DOUBLE", "nan"),
        ("{'a': [1, 2]}", {"a": [1, 2]}),
        ("'\\xFF'::BLOB", {"$bytes": "/w=="}),
        ("DATE '2026-01-02'", "2026-01-02"),
        ("TIMESTAMP '2026-01-02 03:04:05'", "2026-01-02T03:04:05.000"),
        ("TIMESTAMPTZ '2026-01-02 03:04:05.123456+01'", "2026-01-02T02:04:05.123456Z"),
    ],
)
def test_a_value_is_what_json_has_for_it(query, value, expected):
    status, out, err = query(f"SELECT {value} AS one", "--json")

    assert (status, err) == (0, "")
    assert json.loads(out) == {"one": expected}
    assert query(f"SELECT {value} AS one")[0] == 0


def test_columns_of_one_name_stay_apart(query):
    assert json.loads(query("SELECT 1 AS a, 2 AS a", "--json")[1]) == {"a": 1, "a_1": 2}


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE mine AS SELECT 1",
        "DROP VIEW dead_letters",
        "COPY dead_letters TO 'copy.csv'",
        "EXPLAIN ANALYZE COPY dead_letters TO 'copy.csv'",
        "EXPLAIN/* all */ANALYZE -- of it\n COPY dead_letters TO 'copy.csv'",
        "ATTACH 'mine.db'",
        "INSERT INTO dead_letters SELECT * FROM dead_letters",
        "SELECT 1; EXPORT DATABASE 'copy'",
    ],
)
def test_nothing_is_written(query, tmp_path, monkeypatch, sql):
    monkeypatch.chdir(tmp_path)

    status, out, err = query(sql)

    assert (status, out) == (2, "")
    assert "only read" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT", "not valid SQL: SELECT clause"),
        ("SELECT", "`SHOW TABLES` lists the views"),
        ("FROM events JOIN deths ON true", "messages, events, dead_letters, queue_contents"),
        ("FROM deths", "quarantine, queued_messages"),
        ("SELECT quue FROM dead_letters", '"queue"'),
        ("SELECT 1 FROM dead_leters", "did you mean 'dead_letters'?"),
        ("SELECT max(at) FROM events", 'write the column as "at"'),
        ("SELECT CAST('x' AS INT)", "Could not convert"),
        ("", "is empty"),
    ],
)
def test_a_mistake_is_one_line(query, sql, said):
    status, out, err = query(sql)

    assert (status, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_statements_come_from_stdin_too(piped):
    done = piped("SELECT 1 AS a;\n-- the second\nSELECT 'x' AS b;", "-o", "csv")

    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n1\n\nb\nx\n", "")
    assert piped("").returncode == 2
    assert piped("SELECT 1; SELEC").returncode == 2


def test_a_wide_answer_leaves_out_its_last_columns_and_says_so(query, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = query("FROM dead_letters")[1].splitlines()

    assert lines[0].startswith("query_id")
    assert max(map(len, lines)) <= 60
    assert "--wide" in "\n".join(lines[3:])
    assert "body_bytes" in query("FROM dead_letters", "--wide")[1].splitlines()[0]


def test_the_shell_answers_survives_mistakes_and_keeps_its_history(shop_root, tmp_path):
    mine, its = os.openpty()
    process = subprocess.Popen(
        (*COMMAND, "--tables", shop_root),
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "80", "XDG_STATE_HOME": str(tmp_path)},
    )
    os.close(its)
    shown = ""

    def read_until(text):
        nonlocal shown
        shown = ""
        while text not in shown:
            assert select.select([mine], [], [], 60)[0], shown
            shown += os.read(mine, 4096).decode()

    read_until("dlx> ")
    os.write(mine, b"SELECT 6 * 7\n")
    read_until("...> ")
    os.write(mine, b"AS answer;\n")
    read_until("42")
    os.write(mine, b"SELECT nothing;\n")
    read_until("Binder Error")
    os.write(mine, b".tables\n")
    read_until("queued_messages")
    os.write(mine, b"exit;\n")
    status = process.wait()
    os.close(mine)

    assert status == 0
    history = tmp_path / "dlx-stream" / "query-history"
    assert "AS answer;" in history.read_text()
