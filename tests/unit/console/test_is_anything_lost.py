"""Is anything lost? The first page answers in a sentence, whose numbers add up."""

import html
import re

import duckdb
import pytest

from streaming.broker import commands
from streaming.console.account import account_of, account_of_all, entered_none
from streaming.contents.updater import ContentsUpdater
from streaming.queries.audit.balance import Balance, balance
from streaming.queries.duckdb_tables import Tables
from streaming.queries.ends import IS_DROPPED, IS_LOST, end_of_letter
from tests.builders import Broker
from tests.fixtures.waiting import wait_until
from tests.unit.console.test_messages import words
from tests.unit.queries.drawing import remove
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
        (True, "Yes: 1 dead letter is lost", "= 1 in queues + 1 consumed + 3 died"),
    ],
)
def test_the_first_page_answers_in_a_sentence(tmp_path, make_client, reject, answer, rest):
    said = answer_of(make_client(tables_of(tmp_path / "tables", reject=reject)))

    assert answer.replace(" ", "") in said.replace(" ", "")
    assert "5 copies published to queues =" in said
    assert rest in said
    assert "each is accounted for. As of batch 0, 2020-09-13" in said


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
    assert "each is accounted for" in said


@pytest.fixture(scope="module")
def gone_console(make_client, tmp_path_factory):
    """Something went each way: lost, dropped, purged by anna and by the operator, deleted."""
    broker = Broker()
    recording = Recording(tmp_path_factory.mktemp("gone") / "tables", broker)
    broker.queue("newest", max_length=1)
    for name in ("orders", "old", "short", "mail"):
        broker.queue(name, **({"message_ttl": 10} if name == "short" else {}))
        broker.publish("", name, "a")
    for number in range(3):
        broker.publish("", "newest", f"{number}")
    broker.reject(*(one.ref for one in broker.get("orders", "g")))
    broker.at(1_000)
    broker.do(commands.Purge(queue="newest"), user="anna")
    broker.do(commands.Purge(queue="mail"))
    broker.do(commands.DeleteQueue(queue="old"))
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return make_client(recording.root)


def drawn_page(client, address):
    """A page with its balance."""
    pages = []

    def is_drawn():
        pages.append(client.get(address).text)
        return 'id="gone"' in pages[-1]

    wait_until(is_drawn, lambda: pages[-1])
    return pages[-1]


@pytest.mark.parametrize("address", ["/", "/balance"])
def test_what_is_gone_is_said_by_the_way_that_it_went(gone_console, address):
    [said] = re.findall(r'<span id="gone">(.*?)\.</span>', drawn_page(gone_console, address))

    assert html.unescape(" ".join(re.sub(r"<[^>]+>", "", said).split())) == (
        "Gone: 1 lost · 2 dropped (full) · 1 dropped (expired)"
        " · 1 purged from newest by anna, 2020-09-13 12:26"
        " · 1 purged from mail by the operator, 2020-09-13 12:26 · 1 deleted with its queue"
    )
    for led in re.findall(r'href="([^"]+)"', said):
        assert gone_console.get(html.unescape(led)).status_code == 200
    anna = gone_console.get("/audit?action=purges&user=anna").text
    assert "/audit?action=purges&amp;user=anna" in said
    assert "newest" in anna
    assert "mail" not in anna


def test_where_nothing_is_gone_it_says_so(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("orders")
    broker.publish("", "orders", "a")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()

    assert "<strong>Gone:</strong> nothing." in drawn_page(make_client(recording.root), "/balance")


@pytest.mark.parametrize(
    ("outcome", "reason", "word"),
    [
        ("no_exchange", "maxlen", "dropped"),
        ("no_exchange", "rejected", "lost"),
        ("no_route", "expired", "lost"),
        (None, "expired", ""),
    ],
)
def test_the_tables_and_the_pages_use_one_word_for_an_end(outcome, reason, word):
    row = f"SELECT {repr(outcome) if outcome else 'NULL'} AS outcome, '{reason}' AS reason"
    sql = f"SELECT coalesce({IS_LOST}, false), coalesce({IS_DROPPED}, false) FROM ({row})"

    assert end_of_letter(outcome, reason) == word
    assert duckdb.execute(sql).fetchall() == [(word == "lost", word == "dropped")]


def test_causes_tell_what_was_lost_from_what_was_dropped(gone_console):
    page = gone_console.get("/causes?by=queue").text
    counts = {
        name: re.findall(r'<td class="n[^"]*">(?:<a [^>]*>)?(\d+)(?:</a>)?</td>', row)[-2:]
        for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
        for name in re.findall(r"queue=(\w+)", row)[:1]
    }

    assert '<th class="n">Lost</th><th class="n">Dropped</th>' in page
    assert counts == {"newest": ["0", "2"], "orders": ["1", "0"], "short": ["0", "1"]}
    assert "<em>Lost</em>: a dead letter that no queue took" in page
    assert '/search?queue=orders&amp;end=lost">1<' in page


def test_outcomes_are_grouped_in_words_and_lead_to_their_letters(gone_console):
    rejected = gone_console.get("/causes?by=outcome&reason=rejected").text
    mixed = gone_console.get("/causes?by=outcome").text
    words = "the dead-letter exchange does not exist or is not set"

    assert f'href="/search?reason=rejected&amp;end=lost">{words}</a>' in rejected
    assert f'href="/search">{words}</a>' in mixed, "some are lost, others were dropped"


@pytest.mark.parametrize(("end", "count"), [("lost", 1), ("dropped", 3)])
def test_a_search_has_what_was_lost_or_what_was_dropped_alone(gone_console, end, count):
    page = gone_console.get(f"/search?end={end}").text

    assert f"<strong>{count}</strong> dead letter" in page
    assert f"--end {end}" in page
    refused = gone_console.get("/search?end=gone")
    assert refused.status_code == 400
    assert "end: expected lost, dropped, not" in html.unescape(refused.text)


def test_the_answer_says_where_and_why_in_words_and_leads_there(tmp_path, make_client):
    client = make_client(tables_of(tmp_path / "tables", reject=True))
    answer_of(client)
    page = client.get("/").text

    [(address, said, because)] = re.findall(
        r'<span class="loss"><a href="([^"]+)">(.*?)</a> \((.*?)\)', page
    )
    assert said == "1 rejected in orders"
    assert because == "the dead-letter exchange does not exist or is not set"
    assert "<strong>1</strong> dead letter" in client.get(html.unescape(address)).text
    assert "/causes?by=outcome" not in page
    assert 'href="/redrive/plan?end=lost&amp;gone=yes"' in page


def test_the_page_of_a_message_uses_the_same_words(gone_console):
    found = html.unescape(gone_console.get("/find?q=0/0/0").text)  # rejected in orders

    assert "It was lost when it died in orders" in found
    assert re.search(r">lost</span>: the dead-letter exchange does not exist or is not set", found)


def test_the_search_says_what_became_of_a_letter_in_the_same_words(gone_console):
    page = gone_console.get("/search").text
    marks = re.findall(r'<span class="mark( bad)?" title="([^"]+)">(lost|dropped)</span>', page)
    words = "the dead-letter exchange does not exist or is not set"

    assert sorted(word for _tone, _meaning, word in marks) == ["dropped"] * 3 + ["lost"]
    assert len({meaning for _tone, meaning, _word in marks}) == 2
    assert page.count(f'<td class="wide">{words}</td>') == 4, "in words, not as a code"
    assert "no_exchange" not in page
    assert 'id="ends"' in page


def test_the_balance_answers_too_if_something_is_lost(gone_console):
    page = drawn_page(gone_console, "/balance")

    [said] = re.findall(r'<p id="lost">(.*?)</p>', page, re.DOTALL)
    text = html.unescape(" ".join(re.sub(r"<[^>]+>", "", said).split()))
    assert text.startswith("Is anything lost? Yes: 1 dead letter is lost. 1 rejected in orders")


def test_what_is_gone_but_not_lost_says_so(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    for name in ("orders", "mail"):
        broker.queue(name)
        broker.publish("", name, "a")
        broker.at(60_000)
        broker.do(commands.Purge(queue=name), user="anna")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()

    page = drawn_page(make_client(recording.root), "/balance")

    [said] = re.findall(r'<span id="gone">(.*?)\.</span>', page)
    assert html.unescape(" ".join(re.sub(r"<[^>]+>", "", said).split())) == (
        "Gone as declared or on purpose, not lost: "
        "2 purged from 2 queues by anna, last at 2020-09-13 12:27"
    )


def test_a_purge_leads_to_its_queue_just_before_it(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("orders")
    broker.publish("", "orders", "a")
    recording.commit()
    broker.at(60_000)
    broker.do(commands.Purge(queue="orders"), user="anna")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    client = make_client(recording.root)

    def ready(address):
        page = client.get(html.unescape(address)).text
        return re.findall(r"<dt>Ready</dt><dd>(\d+)</dd>", page)

    for page in ("/audit?action=purges", "/queue?queue=orders&stretch=1h&as_of=1"):
        text = client.get(page).text
        links = dict(re.findall(r'<a href="([^"]+)">(before|after)</a>', text))
        by_word = {word: address for address, word in links.items()}
        assert (ready(by_word["before"]), ready(by_word["after"])) == (["1"], ["0"]), page


@pytest.mark.parametrize(
    ("table", "condition", "said"),
    [
        (
            "events",
            lambda row: row["kind"] == "acked",
            "fehlendes Ereignis: .*nach den Ereignissen ist sie unbest",
        ),
        ("dead_letters", lambda row: True, "fehlender Dead Letter: .*aber dead_letters hat keine"),
        ("messages", lambda row: row["offset"] == 0, "fehlende Nachricht: .*hat keine Zeile von"),
    ],
)
def test_what_is_unexplained_is_said_in_the_language_of_the_page(
    make_client, tmp_path, table, condition, said
):
    root = tables_of(tmp_path / "tables", reject=True)
    assert remove(root, table, condition)
    client = make_client(root)

    def page():
        return words(client.get("/balance", headers={"accept-language": "de"}).text)

    wait_until(lambda: re.search(said, page()), page)
    assert "missing" not in page()
