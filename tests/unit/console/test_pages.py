"""Every page of the console answers about the shop's tables, live and as of an instant."""

import re

import pytest

from streaming.console import balance_watch
from streaming.console.app import PAGES
from streaming.console.pages import queue
from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.fixtures.waiting import wait_until
from tests.unit.queries.recording import Recording

PARAMETERS = {
    "/queue": "queue=billing",
    "/changes": "queue=billing&from=0&to=1",
    "/message": "id=first",
    "/compare": "id=first&with=0/0/2",
}
"""What a page needs."""

NO_PAGES = {"/search/export", "/sql/export", "/message/body", "/message/scenario", "/redrive"}
"""Files, and what needs a plan."""


def addresses():
    pages = [one.path for one in PAGES if not one.is_action and one.path not in NO_PAGES]
    return [f"{path}?{PARAMETERS.get(path, '')}" for path in pages]


@pytest.mark.parametrize("as_of", ["", "0", "1"])
@pytest.mark.parametrize("address", addresses())
def test_every_page_answers_at_every_instant(shop_console, address, as_of):
    answer = shop_console.get(f"{address}&as_of={as_of}")

    assert answer.status_code == 200
    assert "<h1>" in answer.text
    has_none = address.startswith(("/goto", "/alerts"))
    assert ('id="command"' in answer.text) != has_none, (
        "one only leads on, no command lists the other"
    )


@pytest.mark.parametrize("name", ["path", "self", "changes", "view", "name"])
def test_a_parameter_may_have_any_name(shop_console, name):
    assert shop_console.get(f"/queues?{name}=x").status_code == 200
    assert shop_console.get(f"/nowhere?{name}=x").status_code == 404


def test_the_first_page_says_whether_anything_is_unexplained(shop_console):
    def page():
        return shop_console.get("/").text

    wait_until(lambda: "at batch 1" in page(), page)

    assert "not known yet" not in page()


def test_a_queue_shows_its_contents_at_an_instant(shop_console):
    now = shop_console.get("/queue?queue=billing&state=unacked").text
    before = shop_console.get("/queue?queue=billing&state=unacked&as_of=0").text

    assert "order 5" in now
    assert "order 5" not in before


def test_control_characters_of_a_body_are_shown_as_escapes(shop_console):
    page = shop_console.get("/queue?queue=dead").text

    assert "order 2 \\x07é" in page
    assert "\x07" not in page


def test_an_unknown_queue_is_not_found(shop_console):
    answer = shop_console.get("/queue?queue=biling")

    assert answer.status_code == 404
    assert "biling" in answer.text
    assert 'href="/queues">All queues</a>' in answer.text, "it is no dead end"


def test_an_instant_that_cannot_be_read_says_what_can(shop_console):
    answer = shop_console.get("/?as_of=soon")

    assert answer.status_code == 400
    assert "10:05" in answer.text


def test_a_balance_that_takes_longer_is_drawn_in_the_background(
    make_client, shop_root, monkeypatch
):
    client = make_client(shop_root)
    monkeypatch.setattr(balance_watch, "PATIENCE_S", 0.0)

    def page():
        return client.get("/balance?as_of=0").text

    first = page()
    wait_until(lambda: "Nothing is unexplained" in page(), page)

    assert 'id="drawing"' in first
    assert "billing" not in first
    assert 'id="drawing"' not in page()
    assert "billing" in page()


def test_the_contents_of_a_queue_are_paged(make_client, tmp_path, monkeypatch):
    monkeypatch.setattr(queue, "PREVIEWED", 2)
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("long", max_priority=3)
    for number in range(5):
        broker.publish("", "long", f"order {number}", priority=number % 2)
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    client = make_client(recording.root)

    shown = [
        re.findall(
            r"order [0-9]",
            client.get(f"/queue?queue=long&page={page}").text.partition("<main")[2],
        )
        for page in (1, 2, 3, 4)
    ]

    assert shown == [["order 1", "order 3"], ["order 0", "order 2"], ["order 4"], []]
