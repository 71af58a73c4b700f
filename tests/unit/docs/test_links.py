"""No link is broken: between pages, within pages, and in the built site."""

import re

import pytest

from tools.docs import site
from tools.docs.markdown import DOCS, name_of, pages

LINK = re.compile(r'(?:href|src)="?([^"#? >]+)')


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_page_has_no_broken_link(page):
    from tools.docs.markdown import broken_links

    assert broken_links(page) == []


def test_the_site_has_every_page_and_no_broken_link():
    front = site.build()
    built = sorted(front.parent.rglob("*.html"))

    assert {page.stem for page in DOCS.rglob("*.md")} <= {file.stem for file in built}
    broken = [
        f"{file.name}: {target}"
        for file in built
        if file.name != "404.html"
        for target in LINK.findall(file.read_text("utf-8"))
        if not re.match(r"[a-z]+:|//", target) and not (file.parent / target).exists()
    ]
    assert broken == []


def test_the_navigation_has_every_page():
    settings = site.CONFIG.read_text("utf-8")

    assert [
        name
        for page in DOCS.rglob("*.md")
        if f'"{(name := page.relative_to(DOCS).as_posix())}"' not in settings
    ] == []
