"""The first page says what died, why, since when, and leads on; within what a viewer may see."""

import html
import re
import time

import pytest

from streaming.broker import commands
from streaming.contents.updater import ContentsUpdater
from tests.builders import START_MS, Broker
from tests.unit.queries.recording import Recording

MINUTE_MS = 60_000


def section(page):
    """What stands in the table of what died; empty without it."""
    found = re.search(r'<table id="died">.*?</table>', page, re.DOTALL)
    return "" if found is None else found[0]


def words(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_each_line_says_why_and_leads_to_letters_queue_change_and_plan(shop_console):
    table = section(shop_console.get("/?as_of=1").text)

    said = words(table)
    assert "TTL of 500 ms, and no consumer took it in time" in said
    assert "rejected by anna" in said
    for path in ("/search?", "/queue?", "/redrive/plan?"):
        assert f'href="{path}' in table, path
    assert "nothing since the tables begin" in said, (
        "what was declared before the first message broke nothing"
    )


@pytest.fixture
def long_console(make_client, tmp_path):
    """Orders that die now, two days after the first, and others three hours after the first."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("orders", max_length=1)
    for hours in (0, 3, 48):
        broker.at(hours * 3_600_000)
        broker.publish("", "orders", "a")
        broker.publish("", "orders", "b")
        broker.at(hours * 3_600_000 + 1_000)
        recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return make_client(recording.root)


@pytest.mark.parametrize(
    ("batch", "before", "change"),
    [
        (0, "not known", "nothing since the tables begin"),
        (1, "0", "nothing since the tables begin"),
        (2, "0", "nothing in a day"),
    ],
)
def test_what_the_tables_do_not_know_is_no_zero(long_console, batch, before, change):
    said = words(section(long_console.get(f"/?as_of={batch}").text))

    assert f" {before} 2020-" in said
    assert change in said


def test_after_a_quiet_hour_the_page_leads_to_what_died_last(long_console):
    page = long_console.get("/").text

    [address] = re.findall(r'<a href="([^"]+)">what died then</a>', page)
    then = long_console.get(html.unescape(address)).text
    assert section(page) == ""
    assert "orders" in section(then)
    assert "what died then" not in then


@pytest.fixture
def changed_console(make_client, tmp_path):
    """`orders` died before `mail`, more often, and after a policy was set."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    for name in ("mail", "orders"):
        broker.queue(name)
        broker.publish("", name, "early")
    broker.at(1_000)
    broker.policy("short", "^orders$", {"max-length": 1})
    broker.at(2_000)
    broker.publish("", "orders", "late")
    broker.at(3_000)
    broker.reject(*(one.ref for one in broker.get("mail", "m")))
    broker.at(4_000)
    broker.publish("", "mail", "later")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return make_client(recording.root)


def test_the_change_before_is_named_and_leads_to_the_audit(changed_console):
    table = section(changed_console.get("/?as_of=0").text)

    assert "policy set short" in words(table)
    assert 'href="/audit?' in table


def test_the_lines_have_their_instant_and_the_oldest_comes_first_if_asked(changed_console):
    first = section(changed_console.get("/?as_of=0").text)
    oldest = section(changed_console.get("/?as_of=0&order=oldest").text)

    places = [re.findall(r'queue=(\w+)">\1</a>', one) for one in (first, oldest)]
    assert places == [["mail", "orders"], ["orders", "mail"]]
    assert 'aria-sort="ascending"' in oldest
    assert re.search(r">2020-09-13 [0-9:.]+</time> <span[^>]*>[0-9]+ s ago<", oldest)


def test_a_line_says_when_the_last_died_and_the_rest_is_counted(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    for number in range(12):
        broker.queue(f"q{number}", max_length=1)
    for second in (0, 1):
        broker.at(second * 1_000)
        for number in range(12 if second == 0 else 1):
            for _ in range(3):
                broker.publish("", f"q{number}", "a")
    broker.at(2_000)
    recording.commit()
    broker.at(600_000)
    broker.queue("later")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    client = make_client(recording.root)

    pages = [client.get(f"/?as_of={batch}").text for batch in (0, 1)]

    assert "still dying" in words(section(pages[0]))
    assert "last 9 min ago" in words(section(pages[1]))
    assert "still dying" not in words(section(pages[1]))
    assert "4 more deaths, in other queues or for other reasons" in pages[0]


def test_what_was_repaired_is_said_with_since_when_and_leads_to_a_plan(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("orders", dead_letter_exchange="", dead_letter_routing_key="parked")
    broker.queue("parked")
    broker.publish("", "orders", "early")
    broker.reject(*(one.ref for one in broker.get("orders", "bad")))
    broker.at(60_000)
    broker.do(commands.Deployed(service="worker", version="2.1"))
    broker.publish("", "orders", "later")
    broker.at(61_000)
    broker.ack(*(one.ref for one in broker.get("orders", "good")))
    recording.commit()
    broker.at(120_000)
    broker.queue("later")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()

    client = make_client(recording.root)
    page = client.get("/?as_of=1").text

    [box] = re.findall(r'<div class="verdict good" id="repaired">.*?</div>', page, re.DOTALL)
    assert "orders since 2020-09-13 12:27:40 , after deployed worker 2.1 : 1 message" in words(box)
    assert "repaired 60 s ago" in words(section(page))
    links = [html.unescape(one) for one in re.findall(r'href="([^"]+)"', box)]
    assert any(one.startswith("/redrive/plan?") for one in links)
    for link in links:
        assert client.get(link).status_code == 200, link


def test_every_link_of_it_opens(shop_console):
    table = section(shop_console.get("/?as_of=1").text)

    links = [html.unescape(one) for one in re.findall(r'href="([^"]+)"', table)]
    assert links
    for link in links:
        assert shop_console.get(link).status_code == 200, link


def test_a_viewer_without_permissions_sees_nothing_of_it(make_client_of_anna, shop_root):
    page = make_client_of_anna(shop_root).get("/?as_of=1").text

    assert section(page) == ""
    assert "rejected by" not in page


def test_deaths_that_go_on_for_hours_say_when_they_began(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", max_length=1)
    broker.publish("", "work", "first")
    broker.at(9 * MINUTE_MS)
    broker.do(commands.Deployed(service="worker", version="2"))
    for minute in range(10, 200, 9):
        broker.at(minute * MINUTE_MS)
        broker.publish("", "work", "next")
        recording.commit()
    recording.close()
    client = make_client(recording.root)

    def begun(as_of):
        return words(section(client.get(f"/?as_of={as_of}").text))

    assert "2020-09-13 12:36:40 90 min ago" in begun("2020-09-13T14:06:40Z")
    assert "deployed worker 2 60 s before the first" in begun("2020-09-13T14:06:40Z")
    assert "before 2020-09-13 13:30:40 119 min ago" in begun("2020-09-13T15:30:00Z")


def test_a_repaired_queue_of_which_nothing_waits_is_named(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    now_ms = int(time.time() * 1000) - START_MS
    broker.at(now_ms - 20 * MINUTE_MS)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.publish("", "work", "bad")
    broker.reject(*(one.ref for one in broker.get("work", "bad")))
    broker.drain("dead")
    broker.at(now_ms - 10 * MINUTE_MS)
    broker.do(commands.Deployed(service="worker", version="2"))
    broker.at(now_ms - 5 * MINUTE_MS)
    broker.publish("", "work", "good")
    broker.drain("work")
    broker.at(now_ms)
    recording.commit()
    recording.close()

    page = make_client(recording.root).get("/").text

    [box] = re.findall(r'<div class="verdict good" id="repaired">.*?</div>', page, re.DOTALL)
    assert "Nothing that died in work waits to be redriven." in words(box)
