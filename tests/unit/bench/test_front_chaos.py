"""The checks of `dlx bench chaos --front`: each sentence about clients and tables can be broken."""

from collections import Counter
from typing import Any

import pytest

from tests.bench.chaos.front.checks import Ledger, contradictions, waiting_at
from tests.bench.chaos.front.fronts import tracebacks, was_without_kafka
from tests.bench.chaos.front.journal import Entry, Journal, read_journal
from tests.bench.chaos.front.run import FrontChaosResult
from tests.bench.chaos.front.strikes import Sleep
from tests.bench.commands import chaos
from tests.bench.processes import Process

HERE = "127.0.0.1:1/pika-publisher-1"
THERE = "127.0.0.1:2/pika-consumer-2"
SLEEP = Sleep(port=1, begin=5.0, end=9.0, replaced_at=4)
READY = {"work": 1, "dead": 1}


@pytest.mark.parametrize(
    ("said", "is_one"),
    [
        ("is the address right (kafka.security)?", True),
        ("kafka.bootstrap_servers: no answer from 127.0.0.1:1: Broker transport failure", True),
        ("vhost /: another front leads it", False),
    ],
)
def test_a_start_without_kafka_is_told_from_other_ends(said, is_one):
    text = f"other ended by itself with 2: ...\n{said} (dlx doctor explain kafka-unreachable)\n"

    assert was_without_kafka(text) == is_one


def test_a_front_whose_kafka_goes_while_it_opens_its_log_is_such_a_start():
    text = "following dlx.log._2f\ndlx amqp: the log dlx.log._2f cannot be read: {}\nstopped\n"

    assert was_without_kafka(text.format("Failed to get metadata: Local: Broker transport failure"))
    assert not was_without_kafka(text.format("Broker: Offset out of range"))


def test_a_traceback_in_the_log_of_a_process_is_found(tmp_path):
    calm, loud = Process(tmp_path, "calm"), Process(tmp_path, "loud")
    calm.log.write_text("all is well\n")
    loud.log.write_text("well\nTraceback (most recent call last):\n  here\nOops\n")

    [found] = tracebacks([calm, loud])

    assert found.startswith("loud wrote a traceback: ")
    assert "Oops" in found


def seen(*more: Entry) -> list[Entry]:
    """What clients saw of five messages: settled, and once returned by a kill; and then more."""
    return [
        Entry(1.0, HERE, "opened"),
        Entry(1.0, THERE, "opened"),
        *(Entry(2.0, HERE, "published", name) for name in "abcde"),
        *(Entry(3.0, HERE, "confirmed", name) for name in "abcd"),
        *(Entry(3.0, THERE, "delivered", name) for name in "abc"),
        Entry(3.1, THERE, "acked", "a"),
        Entry(3.2, THERE, "rejected", "b"),
        Entry(3.3, THERE, "requeued", "c"),
        Entry(4.0, THERE, "closed", "320 CONNECTION_FORCED"),
        Entry(4.2, THERE, "delivered", "c", redelivered=True),
        Entry(4.3, THERE, "acked", "c"),
        Entry(6.0, HERE, "published", "f"),
        *more,
    ]


def ledger(**changes: Any) -> Ledger:
    """What the tables have of it."""
    known: dict[str, Any] = {
        "messages": Counter("abcdef"),
        "offsets": {name: number for number, name in enumerate("abcdef")},
        "entered": Counter("abcd"),
        "void": Counter("ef"),
        "acked": Counter("ac"),
        "rejected": Counter("b"),
        "returned": Counter("c"),
    }
    return Ledger(**(known | changes), left=READY)


def test_tables_that_agree_with_the_clients_contradict_nothing():
    assert contradictions(seen(), ledger(), [SLEEP], READY) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"messages": Counter("acdef")}, "was confirmed, and is not in `messages`: 1, such as b"),
        ({"messages": Counter("abcdefa")}, "in `messages` again: 1, such as a"),
        ({"messages": Counter("abcdefx")}, "was never published: 1, such as x"),
        ({"entered": Counter("bcd")}, "did not enter the queue: 1, such as a"),
        ({"entered": Counter("abcdb")}, "entered the queue again: 1, such as b"),
        ({"void": Counter("de")}, "was confirmed, and is void: 1, such as d"),
        ({"acked": Counter("a")}, "its ack was answered, and is not in `events`: 1, such as c"),
        ({"acked": Counter("aac")}, "was settled twice in `events`: 1, such as a"),
        ({"acked": Counter("abc")}, "was settled twice in `events`: 1, such as b"),
        ({"rejected": Counter()}, "its rejection was answered, and is not in `events`"),
        ({"returned": Counter()}, "its return was answered, and is not in `events`"),
    ],
)
def test_tables_that_contradict_a_client_are_found(changes, said):
    found = contradictions(seen(), ledger(**changes), [SLEEP], READY)

    assert any(said in text for text in found), found


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (Entry(9.1, HERE, "confirmed", "e"), "was confirmed by a leader that was replaced"),
        (Entry(9.1, THERE, "acked", "a"), "was settled twice, and both were answered"),
        (Entry(9.1, THERE, "delivered", "a"), "was delivered again without the flag"),
        (Entry(9.1, THERE, "closed", "406 unknown delivery tag 7"), "was said to a client"),
    ],
)
def test_what_no_client_must_see_is_found(entry, said):
    found = contradictions(seen(entry), ledger(), [SLEEP], READY)

    assert any(said in text for text in found), found


def test_a_leader_may_confirm_what_was_in_the_log_before_it_was_replaced():
    late = Entry(9.1, HERE, "confirmed", "d")

    assert contradictions(seen(late), ledger(), [SLEEP], READY) == []


def test_other_counts_at_the_end_are_found():
    [found] = contradictions(seen(), ledger(), [SLEEP], {"work": 2, "dead": 1})

    assert "ready at the end" in found


def test_what_was_published_to_a_leader_asleep_is_counted():
    assert waiting_at(SLEEP, seen()) == 1
    assert waiting_at(SLEEP._replace(port=2), seen()) == 0


def test_a_journal_is_read_back_without_a_line_that_was_not_finished(tmp_path):
    file = tmp_path / "pika.jsonl"
    journal = Journal(file)
    name = journal.open(5672, "pika-consumer")
    journal.note(name, "delivered", "m", redelivered=True)
    journal.close()
    with file.open("ab") as opened:
        opened.write(b'{"at":1.0,"conn')

    first, second = read_journal(file)

    assert (first.kind, first.port, second.id, second.redelivered) == ("opened", 5672, "m", True)
    assert read_journal(tmp_path / "missing") == []


def test_what_went_wrong_with_a_front_is_said(monkeypatch, capsys):
    kills, none = Counter({"sleep": 2}), Counter[str]()
    result = FrontChaosResult(kills, none, 0, 0, 0, 0, 0, ["acks are missing"])
    monkeypatch.setattr("tests.bench.chaos.front.run.run_front_chaos", lambda *_, **__: result)

    assert chaos(front=True) == 1
    assert "acks are missing" in capsys.readouterr().out
