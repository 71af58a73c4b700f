"""Why did that message die? Found by the publisher's id, and answered in words."""

import re
import shutil

import pytest

from tests.unit.console.two_vhosts import TREASURE
from tests.unit.queries.redrives.test_plan import Shop


def words(page):
    """The text of a page, each run of blanks as one."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_the_search_leads_from_the_id_of_a_publisher_to_the_message(shop_console):
    answer = shop_console.get("/search?id=first", follow_redirects=False)

    assert answer.status_code == 303
    assert answer.headers["location"] == "/message?id=first"
    assert "Message 0/0/0" in words(shop_console.get("/search?id=first").text)


def test_the_search_still_lists_the_letters_of_ids(shop_console):
    page = words(shop_console.get("/search?id=0/0/2,0/0/0").text)

    assert "2 dead letters" in page


@pytest.mark.parametrize("name", ["no such order", "same"])
def test_an_id_that_no_or_several_messages_have_is_said(shop_console, name):
    answer = shop_console.get("/search", params={"id": name})

    assert answer.status_code == 400
    assert re.search("there is no message|several messages", words(answer.text))


def test_a_viewer_finds_no_message_of_a_vhost_that_they_may_not_see(make_client_of_anna, shop_root):
    answer = make_client_of_anna(shop_root).get("/search?id=first")

    assert answer.status_code == 400
    assert "there is no message" in answer.text
    assert "order 0" not in answer.text


def test_a_message_says_in_words_why_it_died_and_where_it_is(shop_console):
    expired = words(shop_console.get("/message?id=0/0/2").text)
    rejected = words(shop_console.get("/message?id=first").text)

    assert re.search(r"Why it died expired in mail .{10,30}: TTL 500 ms, no consumer took", expired)
    assert re.search(r"Now copy [0-9]+ is ready in dead ", expired)
    assert "anna rejected it on channel clerk" in rejected


def test_a_message_that_was_redriven_has_a_page(make_client, tmp_path):
    shop = Shop(tmp_path)
    shop.approve(shop.plan())
    shop.recording.commit()

    page = words(make_client(tmp_path).get("/message?id=0/0/0").text)

    assert "redriven" in page


@pytest.mark.parametrize("address", ["/", "/search", "/message?id=first", "/queues"])
def test_a_damaged_file_is_named_on_the_page(make_client, shop_root, tmp_path, address):
    root = shutil.copytree(shop_root, tmp_path / "tables")
    client = make_client(root)
    for file in root.glob("*/*.parquet"):
        file.unlink()

    answer = client.get(address)

    assert answer.status_code == 400
    assert re.search(r"this file of the table \w+ is missing", words(answer.text))


@pytest.mark.parametrize("as_of", ["0001-01-01", "2020-01-01"])
def test_an_instant_before_the_history_is_refused_with_its_beginning(shop_console, as_of):
    answer = shop_console.get(f"/?as_of={as_of}")

    assert answer.status_code == 400
    assert "history begins at 2020-09-13T12:26:40Z" in words(answer.text)


def found_by(client, text):
    """The page that Find opens at once; None: it lists what there is."""
    answer = client.get("/find", params={"q": text}, follow_redirects=False)
    return answer.headers.get("location")


def test_every_page_has_the_field_that_finds(shop_console):
    for address in ("/", "/queues", "/message?id=first", "/find"):
        assert 'action="/find"' in shop_console.get(address).text


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("0/0/2", "/message?id=0/0/2"),
        ("0/0/0", "/message?id=0/0/0"),
        ("2020-09-13 12:30", "/?as_of=2020-09-13+12%3A30"),
    ],
)
def test_an_id_and_an_instant_open_at_once(shop_console, text, page):
    assert found_by(shop_console, text).replace("%2F", "/") == page


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("first", "/message?id=0/0/0"),
        ("order 0", "/message?id=0/0/0"),
        ("acme", "/message?id=0/0/0"),
        ("mail", "/queue?vhost=/&queue=mail"),
    ],
)
def test_the_only_thing_that_has_a_text_opens_at_once(shop_console, text, page):
    assert found_by(shop_console, text).replace("%2F", "/") == page


def test_several_messages_are_listed_with_where_the_text_is(shop_console):
    page = words(shop_console.get("/find?q=order").text)

    assert re.search(r"0/0/2 body .{10,30} mail expired 0/0/0 body .{10,30} billing reject", page)


def test_a_text_that_is_too_long_is_refused(shop_console):
    assert shop_console.get("/find", params={"q": "x" * 501}).status_code == 400


def test_a_user_does_not_find_a_message_of_a_closed_queue(make_client_of_anna, two_vhosts):
    client = make_client_of_anna(two_vhosts)

    for text in (TREASURE, "vault-q"):
        page = words(client.get("/find", params={"q": text}).text)
        assert "Nothing has this id, name or number that you may see." in page


def test_what_is_nowhere_is_said_with_what_the_field_takes(shop_console):
    page = words(shop_console.get("/find", params={"q": "no such order"}).text)

    assert "Nothing has this id, name or number." in page
    assert "correlation_id" in page


def test_a_viewer_finds_no_letter_or_queue_of_a_hidden_vhost(make_client_of_anna, shop_root):
    client = make_client_of_anna(shop_root)

    for text in ("first", "mail", "order 0"):
        page = words(client.get("/find", params={"q": text}).text)
        assert "Nothing has this id, name or number that you may see." in page
