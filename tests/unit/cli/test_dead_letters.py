"""`dlx dead-letters`."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import typer

from streaming.cli.durations import parse_since

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

LISTED = """\
AT                        MESSAGE  VHOST  QUEUE    REASON    COUNT  KEY      WENT TO  BYTES
2020-09-13T12:26:40.500Z  0/0/2    /      mail     expired       1  mail.eu  dead        16
2020-09-13T12:26:40.000Z  0/0/0    /      billing  rejected      1  bill.eu  dead         7
"""
TOLD = """\
message 0/0/2
  published to exchange 'orders' with key 'mail.eu' in vhost '/' by guest on channel pub
  from topic dlx.publishes, partition 0, offset 2, at 2020-09-13T12:26:40.000Z, in batch 0
  properties: {"message_id":"same"}
  body, 16 bytes:
    order 2 \\x07é
    line

2020-09-13T12:26:40.000Z  #12  copy 12 enters queue 'mail'
2020-09-13T12:26:40.500Z  #18  copy 12 of queue 'mail' dies: expired; sent to exchange 'dlx' with \
key 'mail.eu', to 'dead'
2020-09-13T12:26:40.500Z  #19      copy 19 enters queue 'dead', from copy 12

now: copy 19 is ready in queue 'dead'
x-death after its last death, most recent first:
  expired in queue 'mail', 1 time, first at 2020-09-13T12:26:40.000Z; it came from exchange \
'orders' with keys 'mail.eu'
"""


def test_list_shows_a_line_a_death(dlx, shop_root):
    assert dlx("dead-letters", "list", "--tables", shop_root) == (0, LISTED, "")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--queue", "mail"], ["0/0/2"]),
        (["--reason", "rejected"], ["0/0/0"]),
        (["--vhost", "other"], []),
        (["--limit", "1"], ["0/0/2"]),
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


def test_list_says_so_when_there_is_none(dlx, shop_root):
    of_another_vhost = dlx("dead-letters", "list", "--vhost", "other", "--tables", shop_root)
    later = dlx("dead-letters", "list", "--queue", "mail", "--since", "1h", "--tables", shop_root)

    assert of_another_vhost == later == (0, "no dead letters\n", "")


@pytest.mark.parametrize(
    ("queue", "hint"),
    [("biling", " (did you mean 'billing'?)"), ("o'brien", ""), ("größe", ""), ("", "")],
)
def test_list_says_so_when_nothing_ever_died_in_a_queue(dlx, shop_root, queue, hint):
    found = dlx("dead-letters", "list", "--queue", queue, "--tables", shop_root)

    assert found == (0, f"no dead letters: nothing has died in queue {queue!r}{hint}\n", "")


def test_a_reason_that_is_none_is_refused_with_those_there_are(dlx, shop_root):
    status, out, err = dlx("dead-letters", "list", "--reason", "rejectd", "--tables", shop_root)

    assert (status, out) == (2, "")
    assert "'rejectd' is no reason (did you mean 'rejected'?)" in " ".join(err.split())


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("", "a condition is missing"),
        ("  ", "a condition is missing"),
        ("reason = 'expired') OR (true", 'syntax error at or near ")"'),
        ("reason = 'expired' ORDER BY queue", 'syntax error at or near "ORDER"'),
        ("reason = 'expired' LIMIT 1", 'syntax error at or near "LIMIT"'),
        ("true UNION SELECT 1", 'syntax error at or near "UNION"'),
        ("true; DROP VIEW dead_letters", "is more than one condition"),
        ("max(at) > now()", 'write "at", in double quotes'),
        ("at>now()", 'write "at", in double quotes'),
        ("queue", "Could not convert string"),
        ("CAST(queue AS INT) = 1", "Could not convert string"),
    ],
)
def test_what_is_not_one_condition_is_refused(dlx, shop_root, where, said):
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


def test_a_bad_condition_is_explained_and_nothing_is_listed(dlx, shop_root):
    assert dlx("dead-letters", "list", "--where", "queu = 1", "--tables", shop_root) == (
        2,
        "",
        "--where 'queu = 1': Binder Error: Referenced column \"queu\" not found in FROM clause!\n"
        'Candidate bindings: "queue", "query_id", "seq", "lane"\n'
        "\n"
        "        queu = 1\n"
        "        ^^^^\n",
    )


def test_show_tells_the_whole_life(dlx, shop_root):
    assert dlx("dead-letters", "show", "0/0/2", "--tables", shop_root) == (0, TOLD, "")


def test_show_tells_of_deliveries_by_channel_and_user(dlx, shop_root):
    _, out, _ = dlx("dead-letters", "show", "first", "--tables", shop_root)

    assert [line[31:] for line in out.splitlines() if line.startswith("2020")] == [
        "copy 10 enters queue 'billing'",
        "copy 10 of queue 'billing' is delivered to channel 'clerk' of anna",
        "copy 10 of queue 'billing' dies: rejected; sent to exchange 'dlx' with key 'bill.eu', "
        "to 'dead'",
        "    copy 16 enters queue 'dead', from copy 10",
        "    copy 16 of queue 'dead' is taken by channel 'reader', acked by that",
    ]
    assert '  headers: {"tenant":"acme","n":1}' in out.splitlines()
    assert "now: no copy of it is in any queue" in out.splitlines()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("0/0/1", "copy 11 of queue 'billing' is acked by channel 'clerk' of anna"),
        ("0/0/3", "no queue takes it: dropped"),
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


def test_an_unknown_message_is_an_error_in_words(dlx, shop_root):
    assert dlx("dead-letters", "show", "1/2/3", "--tables", shop_root) == (
        2,
        "",
        "no message is named '1/2/3': there is none at partition 2, offset 3 of topic number 1; "
        "`dlx dead-letters list` shows names\n",
    )


def test_since_is_a_time_ago_or_an_instant():
    assert parse_since("30s", NOW) == NOW - timedelta(seconds=30)
    assert parse_since("15m", NOW) == NOW - timedelta(minutes=15)
    assert parse_since("2h", NOW) == NOW - timedelta(hours=2)
    assert parse_since("7d", NOW) == NOW - timedelta(days=7)
    assert parse_since("2026-02-28", NOW) == datetime(2026, 2, 28, tzinfo=UTC)
    assert parse_since("2026-02-28T12:00:00+01:00", NOW) == datetime(2026, 2, 28, 11, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "h", "2 h", "-1h", "yesterday", "999999999d", "2026-13-01"])
def test_since_is_nothing_else(text):
    with pytest.raises(typer.BadParameter, match="neither a time ago"):
        parse_since(text, NOW)
