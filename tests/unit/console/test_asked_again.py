"""What was typed is not lost if a page cannot answer; empty and narrow pages say what they are."""

import html
import re

import pytest


def words(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("/sql?sql=select+*+from+nope", "select * from nope</textarea>"),
        ("/search?queue=mail&where=nope+%3D+1", 'name="where" value="nope = 1"'),
        ("/search?queue=mail&since=soon", 'name="queue" value="mail"'),
    ],
)
def test_what_cannot_be_answered_can_be_mended(shop_console, address, kept):
    answer = shop_console.get(address)

    assert answer.status_code == 400
    assert "<h1>Something asked for is wrong</h1>" in answer.text
    assert kept in answer.text


def test_the_page_of_sql_names_every_view_that_its_errors_name(shop_console):
    page = shop_console.get("/sql").text

    for name in ("erasures", "messages", "queued_messages"):
        if name in shop_console.get("/sql?sql=select+*+from+nope").text:
            assert f"<code>{name}</code>" in page


def test_a_queue_says_how_it_is_purged(shop_console):
    page = shop_console.get("/queue?queue=mail").text

    assert "dlx queues purge --vhost / --user" in page
    assert "purge-command" not in shop_console.get("/queue?queue=mail&as_of=0").text


def test_an_empty_audit_says_what_would_stand_there(shop_console):
    page = words(shop_console.get("/audit?user=nobody").text)

    assert "Nothing was done. Here would stand who declared" in page
    assert "All actions" in page


def test_a_page_of_one_vhost_says_so_and_the_menu_leaves_that_of_one_thing(shop_console):
    listed = shop_console.get("/queues?vhost=/").text
    one = shop_console.get("/queue?queue=mail&vhost=/").text

    assert "Only the vhost / is shown." in words(listed)
    assert "All vhosts" in listed
    assert 'href="/search?vhost=%2F" data-key="s"' in listed, "a filter is kept"
    assert 'id="only-vhost"' not in one
    assert 'href="/search" data-key="s"' in one
