"""A user sees what belongs to the vhosts where the user has permissions, and nothing else.

What belongs to the other vhost is named `vault-...`, and its messages hold TREASURE.
"""

import pytest

from streaming.console.app import PAGES
from tests.unit.console.conftest import HOST
from tests.unit.console.two_vhosts import TREASURE

pytestmark = pytest.mark.usefixtures("state_home")

ORIGIN = {"origin": f"http://{HOST}"}
PROBES = (
    "vhost=vault-v",
    "queue=vault-q&header=vault-h&by_header=vault-h&user=vault-u&around=vault&format=csv",
    "queue=closed&vhost=/&from=0&to=0",
    "id=0/0/500&message=0/0/500",
    "id=0/0/1&message=0/0/1",
    "id=vault-m",
    "id=closed-m&with=mine",
    f"cause={TREASURE}&by=queue,cause",
    "where=1%3D1)+OR+(vhost%3D'vault-v'",
    "q=vault-q",
    "q=vault-m",
    f"q={TREASURE}",
    "sql=FROM+messages",
    "as_of=0/0/500",
    "as_of=0",
    "as_of=1&vhost=vault-v",
    "as_of=0&queue=vault-q",
    "as_of=0&id=vault-m",
)
"""Parameters that name what the user may not see, or ask for everything."""


@pytest.fixture(scope="module")
def ask(make_client_of_anna, two_vhosts):
    """Asks as anna, who operates, and may read the queues of `/` that begin with `open`."""
    return make_client_of_anna(two_vhosts, "editor")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_no_page_shows_another_vhost_or_a_message_of_a_closed_queue(ask, page):
    shown = {}
    for probe in ("", *PROBES):
        address = f"{page.path}?{probe}"
        method = "POST" if page.is_action else "GET"
        text = ask.request(method, address, headers=ORIGIN, data={"reason": "why"}).text
        named = "vault" in text and "vault" not in probe  # a page may repeat its address
        if (TREASURE in text and TREASURE not in probe) or named:
            shown[probe] = text[text.find("vault") - 80 :][:200]

    assert shown == {}


def test_the_tables_do_have_what_is_not_shown(make_client, two_vhosts):
    everything = make_client(two_vhosts)

    assert TREASURE in everything.get("/search").text
    assert "vault-q" in everything.get("/queues").text
    assert "vault-p" in everything.get("/definitions").text
    assert TREASURE in everything.get("/message?id=vault-m").text


def test_what_the_user_may_read_is_shown(ask):
    assert "order 0" in ask.get("/search").text
    assert "order 0" in ask.get("/queue?queue=open-dead&vhost=/").text
    assert "order 0" in ask.get("/message?id=mine").text
    assert "<strong>1</strong> dead letter</span>" in ask.get("/search").text
