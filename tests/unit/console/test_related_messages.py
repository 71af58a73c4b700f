"""The page of a message links the messages that belong to it."""

from tests.unit.queries.test_related import an_order


def test_the_page_of_a_message_links_them(make_client, tmp_path):
    client = make_client(an_order(tmp_path / "tables"))
    page = client.get("/message?id=0/0/1").text

    listed = page[page.index('id="related"') :]
    assert 'href="/message?id=0%2F0%2F0"' in listed[: listed.index("</ul>")]
    assert "<strong>rejected</strong>" in listed
    assert "has the same order, 17" in listed
