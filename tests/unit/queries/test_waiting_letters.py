"""The letters that wait: those that a plan would move, by where and why they died."""

from collections import Counter

from streaming.broker.redrive_letters import RedriveOptions
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.dead_letters.summary import summary_of
from streaming.queries.dead_letters.waiting import deaths_before, waiting_letters, waiting_queues
from streaming.queries.duckdb_tables import Tables
from streaming.queries.queues import peek
from streaming.queries.redrives.candidates import candidates
from tests.builders import Broker
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import Recording
from tests.unit.queries.redrives.letters import Shop, retried


def asked(root, question):
    tables = Tables(str(root))
    try:
        return question(tables)
    finally:
        tables.close()


def by_queue(tables):
    return {one.queue: one.count for one in waiting_queues(tables)}


def counts(tables):
    found: Counter[tuple[str, str, str]] = Counter()
    for one in waiting_letters(tables):
        found[one.queue, one.died_in, one.reason] += one.count
    return found


def test_letters_are_counted_until_they_are_redriven(tmp_path):
    shop = Shop(tmp_path)

    before = shop.ask(counts), shop.ask(by_queue)
    shop.approve(shop.plan())
    after = shop.ask(counts), shop.ask(by_queue)

    assert before == ({("dead", "work", "rejected"): 4}, {"dead": 4})
    assert after == ({}, {})


def test_restored_letters_wait_in_their_queue_again(tmp_path):
    shop = Shop(tmp_path)
    shop.approve(shop.plan(options=RedriveOptions(action="discard")))

    discarded = shop.ask(by_queue)
    shop.approve(shop.plan(options=RedriveOptions(action="restore")))

    assert discarded == {}
    assert shop.ask(by_queue) == {"dead": 4}


def test_a_message_that_is_back_where_it_first_died_is_no_letter(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="retry")
    broker.queue("retry", dead_letter_exchange="", dead_letter_routing_key="work", message_ttl=100)
    broker.publish("", "work", "order")
    broker.reject(*(one.ref for one in broker.get("work", "g", 1)))
    recording.commit()
    waits = asked(tmp_path, counts), asked(tmp_path, by_queue)
    broker.at(1000)
    recording.commit()
    recording.close()

    assert waits == ({("retry", "work", "rejected"): 1}, {"retry": 1})
    assert asked(tmp_path, counts) == {}
    assert asked(tmp_path, by_queue) == {}


def test_a_summary_counts_the_letters_that_wait(tmp_path):
    shop = Shop(tmp_path)

    def in_queues(tables):
        return [
            summary_of(tables, DeadLetterFilter(vhost=vhost)).in_queues
            for vhost in (None, "/", "other")
        ]

    before = shop.ask(in_queues)
    shop.approve(shop.plan())

    assert (before, shop.ask(in_queues)) == ([4, 4, 0], [0, 0, 0])


def test_they_are_those_that_a_plan_would_move(tmp_path):
    seen = 0
    for seed in range(4):
        play = RandomPlay(seed)
        recording = Recording(tmp_path / str(seed), play.broker)
        for _ in range(3):
            play.steps(60)
            recording.commit()
        recording.close()
        tables = Tables(recording.root)

        found = counts(tables)

        resting = candidates(tables, DeadLetterFilter(), "resting")
        assert found == dict(
            Counter((row["now_in"], row["died_in"], row["reason"]) for row in resting)
        )
        queues: Counter[str] = Counter()
        for (queue, _died_in, _reason), count in found.items():
            queues[queue] += count
        assert not queues - Counter(by_queue(tables)), "the latter has letters of held copies too"
        seen += sum(found.values())
        tables.close()
    assert seen


def test_the_contents_of_a_queue_say_which_death_made_them(tmp_path):
    shop = Shop(tmp_path, letters=2)
    shop.broker.publish("", "dead", "never died")

    def question(tables):
        rows = peek(tables, "dead")
        return rows, deaths_before(tables, "/", rows)

    rows, deaths = shop.ask(question)

    assert [row["body"] for row in rows] == ["m0", "m1", "never died"]
    assert [
        (deaths[row["copy_id"]]["queue"], deaths[row["copy_id"]]["reason"]) for row in rows[:2]
    ] == [("work", "rejected")] * 2
    assert rows[2]["copy_id"] not in deaths


def test_without_letters_there_is_nothing_to_count(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work")
    recording.commit()
    recording.close()

    assert asked(tmp_path, waiting_letters) == []


def test_a_letter_that_died_again_says_where_it_died_first(tmp_path):
    shop = retried(tmp_path)

    [found] = shop.ask(waiting_letters)

    assert (found.queue, found.died_in, found.reason) == ("parking", "retry", "expired")
    assert (found.first_in, found.first_reason, found.count) == ("orders", "rejected", 2)
