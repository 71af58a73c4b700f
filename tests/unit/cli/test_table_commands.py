"""`dlx queues`, `dlx balance`, `dlx tables`, and where they find the tables."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from streaming.cli.output import preview, readable

CHECKOUT = Path(__file__).resolve().parents[3]
QUERIES = (
    ("balance",),
    ("dead-letters", "list"),
    ("dead-letters", "show", "0/0/0"),
    ("queues", "list"),
    ("queues", "peek", "billing"),
    ("tables", "info"),
    ("overview",),
    ("clients", "channels", "list"),
    ("policies", "list"),
    ("quarantine", "list"),
    ("query", "SELECT 1"),
)
NOT_IMPORTED = {"confluent_kafka", "delta", "numpy", "pandas", "pyarrow", "pyspark", "rich"}
RUN_AND_LIST_MODULES = """
import sys
from streaming.cli.main import main
sys.argv = ["dlx", *sys.argv[1:]]
try:
    main()
except SystemExit:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


ALL_QUEUES = ["billing", "box", "dead", "mail"]


def queue_names(result):
    """The queues that `dlx queues list` printed."""
    status, out, err = result
    assert (status, err) == (0, "")
    return [line.split()[0] for line in out.splitlines()[1:]]


def test_the_queues_that_hold_the_most_can_come_first(dlx, shop_root):
    by_bytes = dlx("queues", "list", "--sort", "bytes:desc", "--tables", shop_root)
    by_unacked = dlx("queues", "list", "--sort", "unacked:desc", "--tables", shop_root)

    assert queue_names(by_bytes) == ["dead", "billing", "box", "mail"]
    assert queue_names(by_unacked)[0] == "billing"


def test_queues_have_rabbitmqs_columns_and_the_older_names(dlx, shop_root):
    _, out, _ = dlx("queues", "list", "--json", "--tables", shop_root)

    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["name"] for row in rows] == ALL_QUEUES
    assert (
        rows[0].items()
        >= {
            "name": "billing",
            "vhost": "/",
            "type": "classic",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-dead-letter-exchange": "dlx"},
            "policy": None,
            "dead_letter_exchange": "dlx",
            "messages": 2,
            "messages_ready": 1,
            "messages_unacknowledged": 1,
            "consumers": 0,
            "queue": "billing",
            "ready": 1,
            "unacked": 1,
            "bytes": 14,
        }.items()
    )


def test_peek_shows_who_holds_unacked_messages(dlx, shop_root):
    arguments = ("queues", "peek", "billing", "--tables", shop_root)
    _, held, _ = dlx(*arguments, "--unacked")
    _, ready, _ = dlx(*arguments)

    assert held.split()[:3] == ["message_id", "user", "channel"]
    assert held.splitlines()[1].split()[:3] == ["0/0/5", "anna", "clerk"]
    assert "anna" not in ready


def test_peek_speaks_json(dlx, shop_root):
    _, out, _ = dlx("queues", "peek", "billing", "--unacked", "--json", "--tables", shop_root)

    [row] = [json.loads(line) for line in out.splitlines()]
    assert (row["message_id"], row["body"], row["user"], row["channel"]) == (
        "0/0/5",
        "order 5",
        "anna",
        "clerk",
    )


def test_a_closed_balance_exits_with_0(dlx, shop_root):
    status, out, err = dlx("balance", "--json", "--tables", shop_root)
    document = json.loads(out)

    assert (status, err, document["unexplained"]) == (0, "", 0)
    assert [(row["queue"], row["ready"], row["unacked"]) for row in document["queues"]] == [
        ("billing", 1, 1),
        ("box", 1, 0),
        ("dead", 1, 0),
        ("mail", 0, 0),
    ]


def test_a_balance_that_does_not_close_names_the_message_and_exits_with_1(dlx, copy_of_shop):
    [file] = (copy_of_shop / "dead_letters").glob("*.parquet")
    rows = pq.read_table(file)
    pq.write_table(rows.filter([queue != "mail" for queue in rows["queue"].to_pylist()]), file)

    status, out, err = dlx("balance", "--tables", copy_of_shop)

    assert (status, err) == (1, "")
    assert "message 0/0/2, queue 'mail', vhost '/', seq 18" in out
    document = json.loads(dlx("balance", "--json", "--tables", copy_of_shop)[1])
    assert (document["unexplained"], document["findings"][0]["message_id"]) == (1, "0/0/2")


def test_info_shows_every_table(dlx, shop_root):
    _, out, _ = dlx("tables", "info", "--json", "--tables", shop_root)

    tables = [json.loads(line) for line in out.splitlines()]
    assert [(one["name"], one["rows"], one["last_batch"], one["behind"]) for one in tables] == [
        ("messages", 9, 1, None),
        ("events", 29, 1, None),
        ("dead_letters", 2, 0, None),
        ("queue_contents", 4, 1, 0),
        ("quarantine", 0, None, None),
    ]
    _, out, _ = dlx("tables", "info", "--tables", shop_root)
    titles = ["name", "version", "files", "rows", "bytes", "last_batch", "behind"]
    assert out.splitlines()[0].split() == titles


def test_rebuild_recreates_queue_contents(dlx, copy_of_shop):
    shutil.rmtree(copy_of_shop / "queue_contents")

    status, out, err = dlx("tables", "rebuild", "--tables", copy_of_shop)

    assert (status, err) == (0, "")
    assert out.startswith("queue_contents: 4 rows in 1 files, as of batch 1, ")
    assert queue_names(dlx("queues", "list", "--tables", copy_of_shop)) == ALL_QUEUES


@pytest.mark.parametrize("command", [*QUERIES, ("tables", "rebuild")], ids=" ".join)
def test_every_command_reports_missing_tables(dlx, tmp_path, command):
    status, out, err = dlx(*command, "--tables", tmp_path)

    assert (status, out) == (2, "")
    assert f"{tmp_path}: there is no table '" in err
    assert not list(tmp_path.iterdir())


def test_without_an_option_dlx_toml_says_where_the_tables_are(
    dlx, shop_root, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert dlx("queues", "list")[0] == 2
    (tmp_path / "dlx.toml").write_text(f'[job]\ntables_location = "{shop_root}"\n')
    assert queue_names(dlx("queues", "list")) == ALL_QUEUES


@pytest.mark.parametrize("arguments", QUERIES, ids=" ".join)
def test_a_query_starts_fast_because_it_imports_little(arguments, shop_root):
    finished = subprocess.run(
        [sys.executable, "-c", RUN_AND_LIST_MODULES, *arguments, "--json", "--tables", shop_root],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert NOT_IMPORTED.isdisjoint(finished.stderr.split())


def test_a_rebuild_needs_no_spark_and_no_pandas(copy_of_shop):
    finished = subprocess.run(
        [sys.executable, "-c", RUN_AND_LIST_MODULES, "tables", "rebuild", "--tables", copy_of_shop],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert {"pandas", "pyspark"}.isdisjoint(finished.stderr.split())


def test_bodies_are_shown_so_that_a_terminal_is_safe():
    assert readable("a\x1b[31mb\tc\nd") == "a\\x1b[31mb\\tc\nd"
    assert readable({"$bytes": "AAE="}) == '{"$bytes":"AAE="}'
    assert readable(None) == ""
    assert preview("x" * 61) == "x" * 57 + "..."
    assert preview("a\nb") == "a b"
