"""A letter that died several times is found by each of its deaths; pages name first and last."""

import re

import pytest

from streaming.contents.updater import ContentsUpdater
from tests.unit.queries.redrives.letters import retried


@pytest.fixture(scope="module")
def console(make_client, tmp_path_factory):
    root = tmp_path_factory.mktemp("retried") / "tables"
    shop = retried(root, letters=1)
    shop.recording.commit()
    ContentsUpdater(shop.recording.place).update()
    shop.recording.close()
    return make_client(root)


def plain(page):
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page))


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ("orders", "rejected its first death of 2; last expired in retry"),
        ("retry", "expired its last death of 2; first rejected in orders"),
    ],
)
def test_search_says_which_death_it_is(console, queue, said):
    assert said in plain(console.get(f"/search?queue={queue}").text)


@pytest.mark.parametrize(("queue", "reason"), [("orders", "rejected"), ("retry", "expired")])
def test_a_plan_by_either_death_has_the_letter(console, queue, reason):
    page = plain(console.get(f"/redrive/plan?queue={queue}&reason={reason}").text)

    assert "1 letter to redrive" in page


def test_the_queue_of_the_first_death_names_where_its_letters_wait(console):
    page = console.get("/queue?queue=orders").text
    listed = console.get("/queues").text

    assert "Dead letters of this queue that wait elsewhere" in page
    assert "in retry, at last" in page
    assert '/redrive/plan?vhost=%2F&amp;queue=orders&amp;reason=rejected"' in page
    assert "first rejected in <a" in console.get("/queue?queue=parking").text
    assert re.search(r"orders</a>.*?>1</a>", listed, re.DOTALL)


def test_the_field_names_the_first_death(console):
    page = plain(console.get("/find?q=m0&words=1").text)

    assert "of 2 deaths; first rejected in orders" in page
