"""The first page says what died, why, since when, and leads on; within what a viewer may see."""

import html
import re


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
    for path in ("/search?", "/queue?", "/audit", "/redrive/plan?"):
        assert f'href="{path}' in table, path


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
