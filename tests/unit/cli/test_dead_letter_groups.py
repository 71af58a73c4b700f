"""`dlx dead-letters groups`, `summary` and `export`."""

import json

import pytest


def test_groups_are_json_lines_with_every_column(dlx, shop_root):
    status, out, _ = dlx("dead-letters", "groups", "--json", "--tables", shop_root)

    assert status == 0
    assert [(row["queue"], row["deaths"]) for row in map(json.loads, out.splitlines())] == [
        ("billing", 1),
        ("mail", 1),
    ]


def test_groups_are_a_table_of_what_was_asked(dlx, shop_root):
    by = ("--by", "header:tenant,cause", "--new-since", "1h", "--wide")
    status, out, _ = dlx("dead-letters", "groups", *by, "--tables", shop_root)

    header, first, *_ = out.splitlines()
    assert status == 0
    assert header.split()[:5] == ["header:tenant", "cause", "deaths", "is_new", "new"]
    assert "(none)" in first


def test_summary_speaks_json_and_csv(dlx, shop_root):
    _, as_json, _ = dlx("dead-letters", "summary", "--json", "--tables", shop_root)
    _, as_csv, _ = dlx("dead-letters", "summary", "-o", "csv", "--tables", shop_root)

    assert json.loads(as_json)["deaths"] == 2
    assert as_csv.splitlines()[0].startswith("queue,reason,cause,deaths")


@pytest.mark.parametrize("command", ["groups", "summary", "list"])
def test_a_filter_that_matches_nothing_is_no_error(dlx, shop_root, command):
    arguments = ("dead-letters", command, "--queue", "dead", "--tables", shop_root)

    assert dlx(*arguments) == (0, "no dead letters in queue 'dead'\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("groups", "--by", "queue,"), "attribute"),
        (("groups", "--by", "colour"), "attribute"),
        (("groups", "--sort", "colour"), "--sort"),
        (("groups", "--new-since", "soon"), "--new-since"),
        (("list", "--header", "=x"), "--header"),
        (("list", "--cause-header", "a", "--cause-sql", "b"), "--cause-sql"),
        (("list", "--cause", "x", "--cause-sql", "colour"), "colour"),
        (("list", "--exchange", "order"), "'orders'"),
        (("summary", "--queue", "mial"), "'mail'"),
        (("export", "letters"), "--format"),
        (("export", "x.csv", "--format", "xml"), "--format"),
        (("export", "x.csv", "--queue", "mial"), "'mail'"),
    ],
    ids=str,
)
def test_a_mistake_is_refused_with_its_place(
    dlx, shop_root, arguments, said, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)

    status, out, err = dlx("dead-letters", *arguments, "--tables", shop_root)

    assert (status, out) == (2, "")
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_export_writes_a_file_and_says_how_many(dlx, shop_root, tmp_path):
    target = tmp_path / "letters.jsonl"
    listed = ("dead-letters", "export", target, "--queue", "mail", "--tables", shop_root)
    status, out, err = dlx(*listed)

    assert (status, out) == (0, "")
    assert err == f"1 dead letter exported to {target}\n"
    assert json.loads(target.read_text())["message_id"] == "0/0/2"
    assert dlx(*listed)[0] == 2
    assert dlx(*listed, "--force")[0] == 0
