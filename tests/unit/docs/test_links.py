"""No link is broken, between pages and within them, and the navigation has every page."""

import pytest

from tools.docs.markdown import DOCS, ROOT, name_of, pages
from tools.docs.site import CONFIG


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_page_has_no_broken_link(page):
    from tools.docs.markdown import broken_links

    assert broken_links(page) == []


def test_the_navigation_has_every_page():
    settings = (ROOT / CONFIG).read_text("utf-8")

    assert [
        name
        for page in DOCS.rglob("*.md")
        if f'"{(name := page.relative_to(DOCS).as_posix())}"' not in settings
    ] == []
