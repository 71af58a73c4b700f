"""`dlx spark sql`: the input of the shell. tests/spark/test_sql_shell.py runs it."""

from streaming.cli.tables.sql import create_views


def test_without_tables_the_shell_names_the_folder(dlx, tmp_path):
    (tmp_path / "dlx.toml").write_text("")
    status, out, err = dlx("spark", "sql", "--config", tmp_path / "dlx.toml")
    assert (status, out) == (2, "")
    assert err.startswith(f"{tmp_path}/dlx.toml: job.tables_location: {tmp_path}/tables ")


def test_each_table_becomes_a_view_and_its_place_is_quoted():
    assert list(create_views({"events": "/a b/it`s", "messages": "s3://bucket/messages"}))[:2] == [
        "CREATE TEMPORARY VIEW events AS SELECT * FROM delta.`/a b/it``s`;\n",
        "CREATE TEMPORARY VIEW messages AS SELECT * FROM delta.`s3://bucket/messages`;\n",
    ]


def test_the_view_of_what_is_queued_needs_both_of_its_tables():
    *_, joined, foreign = create_views(
        {"messages": "/messages", "queue_contents": "/queue_contents"}
    )

    assert foreign.startswith("CREATE TEMPORARY VIEW foreign_dead_letters AS SELECT ")
    assert joined.startswith("CREATE TEMPORARY VIEW queued_messages AS SELECT contents.*, ")
    assert joined.endswith("messages.offset = contents.message_id.offset;\n")
