"""Causes name the release before them, and deployments the deaths after them."""

import html
import re

import pytest

from streaming.broker import commands
from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.unit.queries.recording import Recording

MINUTE_MS = 60_000


def words(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def addresses(page):
    return [html.unescape(one) for one in re.findall(r'href="([^"]+)"', page)]


@pytest.fixture(scope="module")
def released(make_client, tmp_path_factory):
    """`orders` and `mail` die; a release of `orders`, 12 minutes before `orders` rejects."""
    broker = Broker()
    recording = Recording(tmp_path_factory.mktemp("released") / "tables", broker)
    for name in ("orders", "mail"):
        broker.queue(name, max_length=3)
    for number in range(5):
        broker.publish("", "mail", f"{number}")
    broker.at(10 * MINUTE_MS)
    deployed = commands.Deployed(
        service="worker", version="2.1", queues=("orders",), reason="ticket 7"
    )
    broker.do(deployed, user="anna")
    broker.at(22 * MINUTE_MS)
    for number in range(3):
        broker.publish("", "orders", f"{number}")
    broker.reject(*(one.ref for one in broker.get("orders", "g", 3)))
    broker.at(95 * MINUTE_MS)
    recording.commit()
    broker.at(300 * MINUTE_MS)
    broker.publish("", "orders", "late")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return make_client(recording.root)


def row_of(page, name):
    [row] = [one for one in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if f">{name}</a>" in one]
    return row


@pytest.mark.parametrize("by", ["queue,reason", "queue"])
def test_a_cause_names_the_release_before_its_first_death(released, by):
    page = released.get(f"/causes?by={by}").text

    orders = row_of(page, "orders")
    assert "worker 2.1 12 min before" in words(orders)
    [audit] = [one for one in addresses(orders) if one.startswith("/audit")]
    assert "worker 2.1" in released.get(audit).text
    assert "worker" not in row_of(page, "mail"), "the release is of another queue"
    assert "/audit?action=deployments" in page


def test_a_message_names_what_was_changed_before_its_death_as_the_first_page_does(released):
    first = released.get("/?as_of=2020-09-13 13:20").text
    [row] = [one for one in re.findall(r"<tr>.*?</tr>", first, re.DOTALL) if "queue=orders" in one]
    found = released.get("/search?queue=orders&reason=rejected").text
    letter = next(one for one in addresses(found) if one.startswith("/message?"))
    page = released.get(letter).text

    [said] = re.findall(r'<dd class="changed">(.*?)</dd>', page, re.DOTALL)
    assert words(said) == "deployed worker 2.1 12 min before"
    assert "deployed worker 2.1 12 min before the first" in words(row)
    [audit] = [one for one in addresses(row) if one.startswith("/audit")]
    assert audit.replace("as_of=2020-09-13+13%3A20&", "") == addresses(said)[0]
    assert "(no reason given)" in words(row)
    assert "(no reason given)" in words(page)


def test_a_message_says_that_nothing_was_changed_before_its_death(released):
    found = released.get("/search?queue=mail").text
    letter = next(one for one in addresses(found) if one.startswith("/message?"))
    page = released.get(letter).text

    [said] = re.findall(r'<dd class="changed">(.*?)</dd>', page, re.DOTALL)
    assert words(said) == "nothing since the tables begin"
    assert "no reason given" not in page, "it did not fit, and nobody rejected it"


def test_without_a_release_causes_say_how_to_note_one(shop_console):
    page = shop_console.get("/causes").text

    assert "Release before" not in page
    assert "dlx deployed" in page


def test_a_deployment_says_how_many_died_before_and_after_and_leads_to_them(released):
    page = released.get("/audit?action=deployments").text

    assert "ticket 7 · 0 known deaths in the hour before, 3 in the hour after" in words(page)
    [letters] = [one for one in addresses(page) if one.startswith("/search?") and "since" in one]
    assert "3 dead letters" in words(released.get(letters).text)


def test_the_hour_after_a_deployment_may_not_be_over(released):
    assert "0 known deaths in the hour before, 3 in the hour after" in words(
        released.get("/audit?as_of=0").text
    )
    early = released.get("/audit?as_of=2020-09-13T12:50:00Z").text
    assert "0 known deaths in the hour before, 3 since" in words(early)


def test_the_page_of_a_queue_says_when_the_last_release_was_and_leads_on(released):
    page = released.get("/queue?queue=orders").text

    [line] = re.findall(r'<p id="release">.*?</p>', page, re.DOTALL)
    assert "The last release was worker 2.1" in words(line)
    assert "0 known deaths in the hour before, 3 in the hour after" in words(line)
    led = addresses(line)
    assert any(one.startswith("/causes?") and "queue=orders" in one for one in led)
    assert any(one.startswith("/audit?") and "action=deployments" in one for one in led)
    mail = released.get("/queue?queue=mail").text
    assert "No release that concerns this queue is known." in mail


def test_a_curve_without_the_last_release_leads_to_one_with_it(released):
    address = "/queue?queue=orders&as_of=1"
    page = released.get(address).text

    assert "A violet line is a release" not in page
    [longer] = [one for one in addresses(page) if "stretch=6h" in one and "as_of=1" in one][-1:]
    assert "Show it in the curve" in page
    assert "A violet line is a release" in released.get(longer).text
    assert "Show it in the curve" not in released.get(longer).text
