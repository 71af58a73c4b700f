"""`dlx dead-letters`."""

import csv
import io
import json

import pytest


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--queue", "mail"], ["0/0/2"]),
        (["--reason", "rejected"], ["0/0/0"]),
        (["--limit", "0"], ["0/0/2", "0/0/0"]),
        (["--since", "2020-09-13T12:26:40.500"], ["0/0/2"]),
        (["--since", "1h"], []),
        (["--where", "headers ->> 'tenant' = 'acme'", "--queue", "billing"], ["0/0/0"]),
    ],
    ids=str,
)
def test_list_filters_and_speaks_json(dlx, shop_root, options, found):
    status, out, err = dlx("dead-letters", "list", "--json", *options, "--tables", shop_root)

    assert (status, err) == (0, "")
    assert [json.loads(line)["message_id"] for line in out.splitlines()] == found


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--queue", "biling"], "did you mean 'billing'?"),
        (["--queue", "o'brien"], "there is no queue"),
        (["--queue", "größe"], "there is no queue 'größe'"),
        (["--queue", ""], "there is no queue ''"),
        (["--queue", "mial", "--vhost", "/"], "in vhost '/' (did you mean 'mail'?)"),
        (["--vhost", "other"], "there is no vhost 'other'"),
        (["--vhost", "other", "--queue", "mail"], "there is no vhost 'other'"),
    ],
    ids=str,
)
def test_a_name_that_nothing_has_is_an_error(dlx, shop_root, options, hint):
    for more in ([], ["--json"]):
        status, out, err = dlx("dead-letters", "list", *options, *more, "--tables", shop_root)

        assert (status, out) == (2, "")
        assert hint in err


@pytest.mark.parametrize("options", [["--queue", "dead"], ["--queue", "box", "--since", "2d"]])
def test_a_queue_in_which_nothing_died_has_no_dead_letters(dlx, shop_root, options):
    status, out, err = dlx("dead-letters", "list", *options, "--tables", shop_root)

    assert (status, err) == (0, "")
    assert repr(options[1]) in out


def test_the_sort_comes_before_the_limit_which_says_what_it_left_out(dlx, shop_root):
    listed = ("dead-letters", "list", "--limit", "1", "--tables", shop_root)
    for sort, found in (("body_bytes", "0/0/0"), ("went_to", "0/0/2"), ("at:desc", "0/0/2")):
        status, out, err = dlx(*listed, "--sort", sort, "--json")

        assert (status, json.loads(out)["message_id"]) == (0, found)
        assert err == "1 of 2 dead letters; --limit 0 for all\n"


def test_until_ends_the_period_of_the_answer(dlx, shop_root):
    listed = ("dead-letters", "list", "--tables", shop_root)
    _, out, _ = dlx(*listed, "--until", "2020-09-13T12:26:40.500Z", "--json")
    refused = dlx(*listed, "--since", "1h", "--until", "2h")

    assert [json.loads(line)["message_id"] for line in out.splitlines()] == ["0/0/0"]
    assert refused[:2] == (2, "")


def test_an_unknown_reason_is_refused(dlx, shop_root):
    status, out, err = dlx("dead-letters", "list", "--reason", "rejectd", "--tables", shop_root)

    assert (status, out) == (2, "")
    assert "did you mean 'rejected'?" in " ".join(err.split())


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("", "--where"),
        ("  ", "--where"),
        ("reason = 'expired') OR (true", 'syntax error at or near ")"'),
        ("reason = 'expired' ORDER BY queue", 'syntax error at or near "ORDER"'),
        ("reason = 'expired' LIMIT 1", 'syntax error at or near "LIMIT"'),
        ("true UNION SELECT 1", 'syntax error at or near "UNION"'),
        ("true; DROP VIEW dead_letters", "is more than one condition"),
        ("max(at) > now()", 'in double quotes, "at"'),
        ("at>now()", 'in double quotes, "at"'),
        ("queue", "Could not convert string"),
        ("CAST(queue AS INT) = 1", "Could not convert string"),
    ],
)
def test_anything_but_one_condition_is_refused(dlx, shop_root, where, said):
    for as_json in ((), ("--json",)):
        arguments = ("dead-letters", "list", "--where", where, *as_json, "--tables", shop_root)
        status, out, err = dlx(*arguments)

        assert (status, out) == (2, "")
        assert said in err
        assert err.startswith("--where")


def test_a_condition_may_have_a_comment_and_quotes(dlx, shop_root):
    where = """queue = 'mail' -- not 'billing'"""
    _, out, err = dlx("dead-letters", "list", "--where", where, "--json", "--tables", shop_root)

    assert [json.loads(line)["queue"] for line in out.splitlines()] == ["mail"]
    assert err == ""


def test_show_tells_of_deliveries_by_channel_and_user(dlx, shop_root):
    _, out, _ = dlx("dead-letters", "show", "first", "--tables", shop_root)

    assert [line[31:] for line in out.splitlines() if line.startswith("2020")] == [
        "copy 10 enters queue 'billing'",
        "copy 10 of queue 'billing' is delivered to channel 'clerk' of anna",
        "copy 10 of queue 'billing' dies: rejected (anna rejected it on channel clerk); "
        "sent to exchange 'dlx' with key 'bill.eu', "
        "to 'dead'",
        "    copy 16 enters queue 'dead', from copy 10",
        "    copy 16 of queue 'dead' is delivered to channel 'reader' with automatic ack",
    ]
    assert '  headers: {"tenant":"acme","n":1}' in out.splitlines()
    assert "now: no queue has a copy of it" in out.splitlines()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("0/0/1", "copy 11 of queue 'billing' is acked by channel 'clerk' of anna"),
        ("0/0/3", "unroutable: no queue takes it"),
        ("0/0/4", "refused: NOT_FOUND - no exchange 'missing' in vhost '/'"),
        ("0/0/8", "queue 'box' is full and refuses it"),
    ],
)
def test_show_tells_of_other_ends(dlx, shop_root, name, line):
    _, out, _ = dlx("dead-letters", "show", name, "--tables", shop_root)

    assert line in out


def test_show_speaks_json(dlx, shop_root):
    status, out, _ = dlx("dead-letters", "show", "0/0/2", "--json", "--tables", shop_root)
    life = json.loads(out)

    assert (status, life["message_id"], life["now"]) == (0, "0/0/2", {"19": "ready"})
    assert [event["kind"] for event in life["events"]] == ["enqueued", "died", "enqueued"]
    assert life["message"]["body"] == "order 2 \x07é\nline"


def test_show_has_its_events_as_csv(dlx, shop_root):
    status, out, _ = dlx("dead-letters", "show", "0/0/2", "-o", "csv", "--tables", shop_root)

    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert [(row["kind"], row["queue"]) for row in rows] == [
        ("enqueued", "mail"),
        ("died", "mail"),
        ("enqueued", "dead"),
    ]


def test_an_unknown_message_is_an_error(dlx, shop_root):
    status, out, err = dlx("dead-letters", "show", "1/2/3", "--tables", shop_root)

    assert (status, out) == (2, "")
    assert "'1/2/3'" in err


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("text", "    order 2 \\x07é"),
        ("json", "    (is not JSON)"),
        ("hex", "    00000000  6f 72 64 65 72 20 32 20 07 c3 a9 0a 6c 69 6e 65  order 2 ....line"),
    ],
)
def test_show_has_the_body_in_the_form_that_is_asked_for(dlx, shop_root, form, line):
    _, out, _ = dlx("dead-letters", "show", "0/0/2", "--body", form, "--tables", shop_root)

    assert line in out.splitlines()


def test_show_has_the_copies_and_x_death_after_each_death(dlx, shop_root):
    shown = ("dead-letters", "show", "0/0/0", "--tables", shop_root)
    _, out, _ = dlx(*shown)
    _, as_json, _ = dlx(*shown, "--json")

    lines = [line.strip() for line in out.splitlines()]
    assert "x-death: billing rejected 1" in lines
    assert "10  billing, died: rejected after 0s; held by anna on clerk 0s" in lines
    assert [copy["copy_id"] for copy in json.loads(as_json)["copies"]] == [10, 16]


def test_show_writes_a_scenario_that_simulate_replays(dlx, shop_root, tmp_path):
    file = tmp_path / "order.json"
    status, out, err = dlx(
        "dead-letters", "show", "0/0/0", "--scenario", file, "--tables", shop_root
    )

    assert (status, out) == (0, "")
    assert f"dlx simulate {file}" in err
    assert dlx("simulate", "--check", file)[0] == 0


def test_a_scenario_does_not_replace_a_file_unless_it_is_told_to(dlx, shop_root, tmp_path):
    file = tmp_path / "order.json"
    file.write_text("mine")
    shown = ("dead-letters", "show", "0/0/0", "--scenario", file, "--tables", shop_root)

    status, out, err = dlx(*shown)

    assert (status, out, file.read_text()) == (2, "", "mine")
    assert "--force" in err
    assert dlx(*shown, "--force")[0] == 0
    assert "steps" in json.loads(file.read_text())


def test_a_scenario_in_a_folder_that_is_missing_is_refused(dlx, shop_root, tmp_path):
    file = tmp_path / "missing" / "order.json"

    status, out, err = dlx(
        "dead-letters", "show", "0/0/0", "--scenario", file, "--tables", shop_root
    )

    assert (status, out) == (2, "")
    assert f"{file}: cannot be written" in err


def test_a_message_is_shown_by_the_name_of_its_topic(dlx, shop_root):
    shown = ("dead-letters", "show", "--json", "--tables", shop_root)
    status, out, _ = dlx(*shown, "dlx.publishes/0/2")
    missing = dlx(*shown, "dlx.publishes/0/99")

    assert (status, json.loads(out)["message_id"]) == (0, "0/0/2")
    assert missing[:2] == (2, "")


def test_the_future_is_refused(dlx, shop_root):
    status, out, err = dlx(
        "queues", "list", "--as-of", "2999-01-01T00:00:00Z", "--tables", shop_root
    )

    assert (status, out) == (2, "")
    assert "is in the future" in err


@pytest.mark.parametrize(
    "command",
    [["list", "--json"], ["show", "0/0/2"], ["export", "-", "--format", "jsonl"]],
    ids=str,
)
def test_a_user_without_permissions_sees_no_content(dlx, shop_root, command):
    options = ["--as-user", "eve", "--tables", shop_root]
    _, everything, _ = dlx("dead-letters", *command, "--tables", shop_root)

    status, out, err = dlx("dead-letters", *command, *options)

    assert "order 2" in everything
    assert status == 0
    assert "0/0/2" in out
    assert "order 2" not in out
    assert "'eve' may not read queue 'dead'" in err
