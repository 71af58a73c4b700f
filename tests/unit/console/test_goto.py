"""Go to: pages, queues and exchanges by a part of their name."""

import re

from streaming.console.pages.goto import MOST
from tests.builders import Broker
from tests.unit.queries.recording import Recording


def places(text):
    """What is listed: the name, what it is, and where it leads."""
    listed = text.partition('id="places"')[2].partition("</ul>")[0]
    found = re.findall(r'<a href="(.*?)">(.*?) <span class="quiet">(.*?)</span>', listed)
    return {name: (what, address.replace("&amp;", "&")) for address, name, what in found}


def test_pages_queues_and_exchanges_are_found_by_a_part_of_their_name(shop_console):
    found = places(shop_console.get("/goto?q=IL").text)
    assert found["mail"] == ("queue in /", "/queue?vhost=%2F&queue=mail")
    assert found["billing"][0] == "queue in /"

    exchange = places(shop_console.get("/goto?q=orders").text)["orders"]
    assert exchange == ("exchange in /", "/topology?vhost=%2F&around=orders")
    assert places(shop_console.get("/goto?q=audit").text)["Audit"] == ("page", "/audit")


def test_without_a_text_the_pages_are_listed_and_with_one_messages_can_be_searched(shop_console):
    assert {"Now", "Queues", "Topology"} <= places(shop_console.get("/goto").text).keys()

    nothing = places(shop_console.get("/goto?q=order-17").text)
    assert nothing == {"Find “order-17”": ("in messages", "/find?q=order-17")}


def test_the_instant_stays(shop_console):
    assert "as_of=0" in places(shop_console.get("/goto?q=mail&as_of=0").text)["mail"][1]


def test_what_begins_with_the_text_comes_first_and_the_list_is_short(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    for number in range(30):
        broker.queue(f"a-work-{number}")
    broker.queue("work")
    recording.commit()
    recording.close()

    text = make_client(recording.root).get("/goto?q=work").text

    assert next(iter(places(text))) == "work"
    assert len(places(text)) == MOST + 1
    assert "There are more" in text


def test_a_user_finds_nothing_of_a_vhost_that_is_hidden(two_vhosts, make_client_of_anna):
    anna = make_client_of_anna(two_vhosts)

    assert list(places(anna.get("/goto?q=open").text)) == ["open", "open-dead", "Find “open”"]
    assert list(places(anna.get("/goto?q=vau").text)) == ["Find “vau”"]
