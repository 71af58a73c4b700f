"""The page of a message links the messages that belong to it."""

import re

from tests.unit.queries.test_related import an_order


def test_the_page_of_a_message_links_them(make_client, tmp_path):
    client = make_client(an_order(tmp_path / "tables"))
    page = client.get("/message?id=0/0/1").text

    listed = page[page.index('id="related"') :]
    assert 'href="/message?id=0%2F0%2F0"' in listed[: listed.index("</ul>")]
    assert "<strong>rejected</strong>" in listed
    assert "has the same order, 17" in listed


def test_two_messages_of_one_order_are_told_apart_in_a_list(make_client, tmp_path):
    client = make_client(an_order(tmp_path / "tables"))
    page = client.get("/find?q=17").text

    heads = re.findall(r"<th>(.*?)</th>", page)
    assert heads[2:4] == ["Published", "To"]
    rows = re.findall(r"<tr><td.*?</tr>", page, re.DOTALL)
    assert len(rows) > 1
    assert len({re.sub(r"<a [^>]*/message[^>]*>.*?</a>", "", row) for row in rows}) == len(rows)
    assert all("<time" in row for row in rows)
    german = client.get("/find?q=17", headers={"accept-language": "de"}).text
    assert "<th>Dead Letter in</th>" in german
