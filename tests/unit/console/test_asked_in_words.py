"""Find and Go to understand values by name, a queue with a time, and what people call things."""

import html
import re
from datetime import UTC, datetime, timedelta

import pytest

from streaming.contents.updater import ContentsUpdater
from streaming.queries.duckdb_tables import Tables
from streaming.queries.life.find import find_messages
from tests.builders import Broker
from tests.unit.console.test_goto import places
from tests.unit.queries.recording import Recording


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Five letters with 17 in different places."""
    broker = Broker()
    recording = Recording(tmp_path_factory.mktemp("words") / "tables", broker)
    broker.queue("orders", max_length=0)
    broker.queue("orders-eu")
    broker.publish("", "orders", '{"order": 17, "lines": 3}')
    broker.publish("", "orders", '{"cart": {"lines": [1], "order" : "17"}}')
    broker.publish("", "orders", "{}", headers={"order": 17})
    broker.publish("", "orders", "{}", correlation_id="17")
    broker.publish("", "orders", '{"order": 170, "lines": 17}')
    broker.publish("", "orders-eu", '{"order": 99}')
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root


@pytest.fixture(scope="module")
def client(make_client, root):
    return make_client(root)


@pytest.mark.parametrize(
    "text", ["order=17", "order:17", "order = 17", '"order": "17"', "order 17", "order #17"]
)
def test_a_value_is_found_by_its_name(root, text):
    with Tables(root) as tables:
        found = find_messages(tables, text, 10).messages

    assert {(one.message_id, one.place) for one in found} == {
        ("0/0/0", "body"),
        ("0/0/1", "body"),
        ("0/0/2", "headers"),
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lines=17", ["0/0/4"]),
        ("correlation_id=17", ["0/0/3"]),
        ("order=1", []),
        ("price=17", []),
        ("order=.7", []),
        ("lines 17", ["0/0/4"]),
        ("order 1", []),
        ("order seventeen", []),
        ("order=1'7", []),
    ],
)
def test_another_name_or_value_is_not_found(root, text, found):
    with Tables(root) as tables:
        assert [one.message_id for one in find_messages(tables, text, 10).messages] == found


def test_the_only_message_with_a_value_opens(client):
    assert client.get("/find?q=lines=17").url.params["id"] == "0/0/4"


@pytest.mark.parametrize(
    ("text", "as_of"),
    [
        ("orders 2020-09-13", "2020-09-13"),
        ("orders 2020-09-13 14:05", "2020-09-13 14:05"),
        ("orders-e 2020-09-13 14:05:01", "2020-09-13 14:05:01"),
    ],
)
def test_a_queue_with_a_time_opens_as_it_was(client, text, as_of):
    found = client.get("/find", params={"q": text}, follow_redirects=False)

    assert found.status_code == 303
    assert found.next_request.url.params["as_of"] == as_of
    assert found.next_request.url.params["queue"] == (
        "orders-eu" if text.startswith("orders-e") else "orders"
    )


@pytest.mark.parametrize(
    ("text", "days"),
    [("orders yesterday", 1), ("orders gestern", 1), ("orders 2d ago", 2), ("orders 2 d", 2)],
)
def test_days_before_are_understood(client, text, days):
    found = client.get("/find", params={"q": text}, follow_redirects=False)

    at = datetime.fromisoformat(found.next_request.url.params["as_of"]).replace(tzinfo=UTC)
    day = datetime.now(UTC) - timedelta(days=days)
    assert abs(at - day) < timedelta(hours=1)


def test_yesterday_with_a_time_of_day_and_a_time_alone(client):
    def asked(text):
        found = client.get("/find", params={"q": text}, follow_redirects=False)
        return found.next_request.url.params["as_of"]

    assert re.fullmatch(r"\d{4}-\d\d-\d\d 14:05", asked("orders yesterday 14:05"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d 09:05", asked("orders 9:05")[:16])


def test_a_time_without_a_queue_is_no_queue(client):
    page = client.get("/find?q=nothing+yesterday").text

    assert "Nothing has this id, name or number" in page


@pytest.mark.parametrize(
    ("word", "name", "address"),
    [
        ("purge", "Who purged", "/audit?action=purges"),
        ("deploy", "Deployments", "/audit?action=deployments"),
        ("release", "Deployments", "/audit?action=deployments"),
        ("lost", "Is anything lost?", "/balance"),
        ("redrive", "Redrives", "/redrives"),
        ("balance", "Balance", "/balance"),
        ("permissions", "Who changed permissions", "/audit?action=permissions"),
    ],
)
def test_words_lead_to_their_pages(client, word, name, address):
    assert places(client.get(f"/goto?q={word}").text)[name] == ("page", address)
    found = client.get(f"/find?q={word}")
    assert address in str(found.url) or f'href="{html.escape(address)}"' in found.text


@pytest.mark.parametrize(
    ("question", "address"),
    [
        ("who purged it?", "/audit?action=purges"),
        ("is anything lost", "/balance"),
        ("which release broke it", "/audit?action=deployments"),
    ],
)
def test_words_of_a_question_lead_to_their_page(client, question, address):
    found = client.get("/find", params={"q": question}, follow_redirects=False)

    assert found.headers["location"] == address


def test_a_question_about_several_things_offers_each(client):
    page = client.get("/find?q=who+purged+the+lost+ones").text

    assert 'href="/audit?action=purges"' in page
    assert 'href="/balance"' in page
    assert "Find a part of it" not in page


def test_words_are_known_in_german_too(client):
    german = {"accept-language": "de"}

    found = places(client.get("/goto?q=geleert", headers=german).text)
    assert found["Wer geleert hat"] == ("Seite", "/audit?action=purges")
    assert "Wer geleert hat" in places(client.get("/goto?q=purge", headers=german).text)


def test_a_user_is_not_shown_pages_that_are_refused(two_vhosts, make_client_of_anna, client):
    anna = make_client_of_anna(two_vhosts)
    page = anna.get("/").text

    assert 'href="/sql"' not in page
    assert "SQL" not in places(anna.get("/goto?q=sql").text)
    assert "Quarantine" not in places(anna.get("/goto?q=poison").text)
    assert 'href="/sql"' in client.get("/").text


@pytest.mark.parametrize(
    ("address", "title"),
    [
        ("/", "Now"),
        ("/queue?queue=orders", "Queue orders"),
        ("/message?id=0/0/0", "Message 0/0/0"),
        ("/alerts", "Alerts"),
        ("/goto", "Go to"),
        ("/redrive/plan?queue=orders", "Redrive dead letters"),
        ("/redrive/plan?queue=orders&action=discard", "Discard dead letters"),
        ("/queue?queue=nowhere", "Not found"),
        ("/nowhere", "Not found"),
        ("/search?header=%3D1", "Something asked for is wrong"),
    ],
)
def test_the_title_names_the_page(client, address, title):
    assert f"<title>{title} · dlx</title>" in client.get(address).text


def test_what_is_unexplained_leads_to_the_balance(client):
    page = client.get("/").text

    assert re.search(r'<dt>Unexplained</dt><dd><a href="/balance">', page)
