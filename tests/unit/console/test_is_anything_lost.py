"""Is anything lost? The first page answers in a sentence, whose numbers add up."""

import html
import re

import pytest

from streaming.console.account import account_of, account_of_all, entered_none
from streaming.contents.updater import ContentsUpdater
from streaming.queries.audit.balance import Balance, balance
from streaming.queries.duckdb_tables import Tables
from tests.builders import Broker
from tests.fixtures.waiting import wait_until
from tests.unit.queries.recording import Recording


def tables_of(root, *, reject):
    """A queue that drops its oldest, and one whose consumer acks one order and rejects one."""
    broker = Broker()
    recording = Recording(root, broker)
    broker.queue("newest", max_length=1)
    broker.queue("orders")
    for number in range(3):
        broker.publish("", "newest", f"{number}")
    for number in range(2):
        broker.publish("", "orders", f"{number}")
    refs = [one.ref for one in broker.get("orders", "g", 2, channel="c")]
    broker.ack(refs[0], channel="c")
    if reject:
        broker.reject(refs[1], channel="c")
    broker.at(1_000)
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root


def answer_of(client):
    """What stands there once the balance is drawn."""
    pages = []

    def is_drawn():
        pages.append(client.get("/").text)
        return "The proof" in pages[-1]

    wait_until(is_drawn, lambda: pages[-1])
    [section] = re.findall(r'<section id="lost".*?</section>', pages[-1], re.DOTALL)
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", section).split()))


@pytest.mark.parametrize(
    ("reject", "answer", "rest"),
    [
        (False, "No .", "= 2 in queues + 1 consumed + 2 died (2 dropped, as declared) + 0"),
        (True, "Yes: 1 dead letter reached no queue", "= 1 in queues + 1 consumed + 3 died"),
    ],
)
def test_the_first_page_answers_in_a_sentence(tmp_path, make_client, reject, answer, rest):
    said = answer_of(make_client(tables_of(tmp_path / "tables", reject=reject)))

    assert answer.replace(" ", "") in said.replace(" ", "")
    assert "5 copies published to queues =" in said
    assert rest in said
    assert "nothing is missing. As of batch 0, 2020-09-13" in said


def test_a_page_of_the_past_and_of_others_says_what_it_knows(
    shop_console, make_client_of_anna, shop_root, two_vhosts
):
    then = shop_console.get("/?as_of=1").text
    nothing = make_client_of_anna(shop_root).get("/").text
    some = make_client_of_anna(two_vhosts).get("/?as_of=1").text

    assert "lost in the hour before" in then
    assert re.search(r"Is anything lost\?</h2>\s*<p>Not known", nothing)
    assert "accounted for, in the vhosts that you may see" in some


def test_the_sum_is_that_of_every_queue(shop_root):
    with Tables(shop_root) as tables:
        drawn = balance(tables)

    total = account_of_all(drawn)

    for row, one in [(row, account_of(row)) for row in drawn.queues] + [(None, total)]:
        assert one.published + one.again == sum(one[2:]), row
    assert total.published == sum(row.published for row in drawn.queues) > 0
    assert entered_none(drawn) == 3
    assert set(account_of_all(Balance(None, [], [], 0, None, []))) == {0}


def test_the_balance_says_which_ways_out_there_were(shop_console):
    pages = []

    def is_drawn():
        pages.append(shop_console.get("/balance").text)
        return 'id="account"' in pages[-1]

    wait_until(is_drawn, lambda: pages[-1])
    said = html.unescape(" ".join(re.sub(r"<[^>]+>", " ", pages[-1]).split()))
    assert "Published From deaths and redrives There Consumed Died" in said
    assert re.search(r"billing .*? rejected 1 ", said)
    assert "nothing is missing" in said
