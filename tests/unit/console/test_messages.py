"""Why did that message die? Found by the publisher's id, and answered in words."""

import gzip
import html
import re
import shutil

import pytest

from streaming.broker import commands
from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.unit.console.eventful import write_eventful
from tests.unit.console.two_vhosts import TREASURE
from tests.unit.queries.recording import Recording
from tests.unit.queries.redrives.letters import Shop
from tests.unit.queries.redrives.test_edits import approve, edit


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


def test_a_message_is_summed_up_before_the_picture(shop_console):
    page = shop_console.get("/message?id=0/0/2").text

    [summary] = re.findall(r'<p class="summary" id="summary">.*?</p>', page, re.DOTALL)
    assert words(summary) == (
        "It died in mail: TTL 500 ms, no consumer took it. It waits in dead. Redrive it to mail…"
    )
    assert page.index('id="summary"') < page.index('class="story"')
    [link] = re.findall(r'href="([^"]+)"', summary)
    assert "Goes to" in shop_console.get(html.unescape(link)).text


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


def test_no_link_keeps_an_instant_that_the_tables_do_not_have(shop_console):
    early = shop_console.get("/?as_of=2020-01-01").text
    known = shop_console.get("/message?as_of=1&id=nothing").text

    assert "as_of" not in early.replace('name="as_of"', "")
    assert 'href="/">Show it live' in early
    assert 'href="/queues?as_of=1"' in known


def found_by(client, text):
    """The page that Find opens at once; None: it lists what there is."""
    answer = client.get("/find", params={"q": text}, follow_redirects=False)
    return answer.headers.get("location")


def test_every_page_has_the_field_that_finds(shop_console):
    for address in ("/", "/queues", "/message?id=first", "/find"):
        page = shop_console.get(address).text
        assert 'action="/find"' in page
        assert 'placeholder="order 17, or orders 10:05"' in page


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
        ("first", "/message?id=0/0/0&found=first&found_in=message_id"),
        ("order 0", "/message?id=0/0/0&found=order+0&found_in=body"),
        ("acme", "/message?id=0/0/0&found=acme&found_in=headers"),
        ("mail", "/queue?vhost=/&queue=mail"),
    ],
)
def test_the_only_thing_that_has_a_text_opens_at_once(shop_console, text, page):
    assert found_by(shop_console, text).replace("%2F", "/") == page


def test_the_page_of_a_message_names_it_as_its_publisher_and_says_what_find_matched(shop_console):
    page = shop_console.get("/find?q=acme").text

    assert re.search('<h1>Message first <span class="quiet">0/0/0</span></h1>', page)
    assert "Found by “acme” in headers ." in words(page)
    assert 'id="found"' not in shop_console.get("/message?id=0/0/0").text


@pytest.mark.parametrize(
    ("text", "page"),
    [("illi", "/queue?vhost=/&queue=billing"), ("ORDERS", "/topology?vhost=/&around=orders")],
)
def test_a_part_of_a_name_opens_the_only_queue_or_exchange(shop_console, text, page):
    assert found_by(shop_console, text).replace("%2F", "/") == page


def test_an_id_that_no_message_has_is_said_on_the_page_of_find(shop_console):
    answer = shop_console.get("/find?q=3/0/9")

    assert answer.status_code == 200
    assert "there is no message" in words(answer.text)
    assert 'value="3/0/9"' in answer.text


def test_a_release_is_found_by_its_service_and_by_its_version(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("invoices")
    for service, version in (("invoices-worker", "2.0"), ("mailer", "1.7")):
        broker.do(commands.Deployed(service=service, version=version))
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    client = make_client(recording.root)

    def releases(text):
        page = client.get("/find", params={"q": text}).text
        return re.findall(r">([^<]+)</a> <time", page.partition('id="releases"')[2])

    assert releases("invoices-worker") == ["invoices-worker 2.0"]
    assert releases("WORKER 2") == ["invoices-worker 2.0"]
    assert releases("1.7") == ["mailer 1.7"]
    assert releases("' OR true") == []
    page = client.get("/find?q=invo").text
    assert 'href="/queue?vhost=%2F&amp;queue=invoices"' in page
    assert "action=deployments" in page


def test_several_messages_are_listed_with_where_the_text_is(shop_console):
    page = words(shop_console.get("/find?q=order").text)

    assert re.search(
        r"0/0/2 same body [-0-9]{10} \S+ orders · mail\.eu [-0-9]{10} \S+ mail expired dead "
        r"0/0/0 first body [-0-9]{10} \S+ orders · bill\.eu [-0-9]{10} \S+ billing rejected dead",
        page,
    )


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


def test_the_life_is_drawn_and_the_list_says_the_waits(shop_console):
    page = shop_console.get("/message?id=0/0/2").text

    assert 'aria-label="2 stays in 2 queues within' in page
    assert "with 1 death; the list below says each step" in page
    assert re.search(r"500 ms later +died : expired", words(page))


def test_a_redrive_is_told_with_who_did_it_and_why(make_client, tmp_path):
    shop = Shop(tmp_path)
    shop.approve(shop.plan())
    shop.recording.commit()

    page = words(make_client(tmp_path).get("/message?id=0/0/0").text)

    assert re.search(r"redriven by the operator, fixed +\( r-[0-9a-f]{12} \)", page)
    assert (
        page.count("rejected it on channel killer") == 3
    )  # in a sentence, among the facts, and where it died


def test_the_latest_x_death_comes_first_and_the_rest_is_folded(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="park")
    broker.queue("park", dead_letter_exchange="", dead_letter_routing_key="work", message_ttl=100)
    broker.publish("", "work", "order", message_id="m")
    for turn in range(4):
        broker.reject(*(one.ref for one in broker.get("work", f"g{turn}", 1)))
        broker.at(1000 * turn + 1000)
        recording.commit()
    recording.close()

    page = words(make_client(recording.root).get("/message?id=m").text)

    latest, folded = page.index("x-death after 2020"), page.index("after 7 earlier deaths")
    assert latest < folded
    assert "12:26:43.100 in park" in page[latest : latest + 60]
    assert page[folded:].index("12:26:43 in work") < page[folded:].index("12:26:40 in work")


def test_a_compressed_body_is_opened_and_can_be_seen_as_it_came(make_client, tmp_path, monkeypatch):
    packed = gzip.compress(b'{"order": 17}')
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work")
    broker.publish("", "work", "packed", message_id="m")
    monkeypatch.setattr(broker, "bodies", [Bytes(packed)])
    recording.commit()
    recording.close()
    client = make_client(recording.root)

    assert "&#34;order&#34;: 17" in client.get("/message?id=m").text
    assert "published as gzip and is shown opened" in words(client.get("/message?id=m").text)
    assert "1f 8b 08" in client.get("/message?id=m&body=raw").text
    assert client.get("/message/body?id=m").content == packed


class Bytes(str):
    """A body for a recording that is not text."""

    __slots__ = ("content",)
    content: bytes

    def __new__(cls, content):
        made = super().__new__(cls, content.hex())
        made.content = content
        return made

    def encode(self, *_args):
        return self.content


def test_an_edited_letter_is_compared_with_the_letter_it_was(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work")
    headers = {"tenant": "a", "same": 1}
    broker.publish("", "work", '{"n": 1, "m": 2}', headers=headers, message_id="first")
    headers = {"tenant": "b", "same": 1, "new": True}
    broker.publish("", "work", '{"n": 1, "m": 3}', headers=headers, message_id="second")
    recording.commit()
    recording.close()

    page = words(make_client(recording.root).get("/compare?id=first&with=second").text)

    assert "header tenant &#34;a&#34; &#34;b&#34;" in page
    assert "header new is absent true" in page
    assert "header same" not in page
    assert "- &#34;m&#34;: 2" in page
    assert "+ &#34;m&#34;: 3" in page


def test_equal_messages_and_missing_bodies_are_said(make_client, shop_console, tmp_path):
    same = words(shop_console.get("/compare?id=first&with=0/0/0").text)

    assert "They are the same." in same
    assert "The bodies are the same, 7 B." in same


@pytest.mark.parametrize("address", ["id=mine&with=closed-m", "id=closed-m&with=mine"])
def test_contents_of_a_closed_queue_are_not_compared(make_client_of_anna, two_vhosts, address):
    answer = make_client_of_anna(two_vhosts).get(f"/compare?{address}")

    assert answer.status_code == 403
    assert TREASURE not in answer.text


def test_an_edited_letter_and_its_original_lead_to_what_differs(make_client, tmp_path):
    shop = Shop(tmp_path, 1)
    plan = edit(shop, headers={"tenant": "new"}, body_sql="decode(body) || '!'")
    approve(shop, plan)
    shop.recording.commit()
    client = make_client(tmp_path)

    original = client.get("/message?id=0/0/0").text
    [link] = re.findall(r'href="([^"]*)">what differs', original)
    compared = words(client.get(html.unescape(link)).text)
    [version] = re.findall(r"Redriven as (0/0/[0-9]+)", words(original))
    edited = client.get(f"/message?id={version}").text

    assert "which an editor made of it" in compared
    assert "header tenant &#34;t0&#34; &#34;new&#34;" in compared
    assert "-m0 +m0!" in compared
    assert "Redriven from 0/0/0" in words(edited)
    assert re.findall(r'href="([^"]*)">what differs', edited) == [link]


def test_a_message_that_is_in_no_queue_says_how_its_copies_ended(shop_console):
    page = words(shop_console.get("/message?id=0/0/1").text)

    assert "Now in no queue: acked in billing " in page


def test_a_command_in_a_sentence_is_code_and_what_was_asked_stays_a_text(shop_console):
    page = shop_console.get("/message?id=%60%3Cb%3E%60").text

    assert "<code>dlx dead-letters list</code> shows ids" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_a_text_that_nothing_has_as_a_whole_leads_to_its_parts(shop_console):
    page = shop_console.get("/find?q=invoice+17").text
    one_word = shop_console.get("/find?q=invoice").text

    assert '<a href="/find?q=17">17</a> · <a href="/find?q=invoice">invoice</a>' in page
    assert 'id="parts"' not in one_word


def test_the_rest_of_an_event_stands_apart_and_without_the_punctuation_of_json(
    make_client, tmp_path
):
    page = words(make_client(write_eventful(tmp_path / "tables")).get("/message?id=0/0/0").text)

    assert re.search(r"copy [0-9]+ targets z_work ", page)
    assert "{&#34;" not in page.partition("Copies")[0]


def test_the_audit_leaves_out_seals_and_options_that_are_not_set(make_client, tmp_path):
    page = words(make_client(write_eventful(tmp_path / "tables")).get("/audit").text)

    assert "total 2 · options (action redrive" in page
    assert "seal s" not in page
    assert "null" not in page.partition("dlx query")[0]
