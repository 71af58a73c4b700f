"""The pages for readers of the code name files that exist."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
PLACE = re.compile(r"`((?:streaming|topology|tests|tools)/[\w./-]*)`")


@pytest.mark.parametrize("page", ["docs/contributing.md", "docs/design.md"])
def test_every_place_that_a_page_names_exists(page):
    places = PLACE.findall((CHECKOUT / page).read_text("utf-8"))

    assert places
    assert [place for place in places if not (CHECKOUT / place).exists()] == []


def test_every_package_has_its_layer_on_the_page():
    page = (CHECKOUT / "docs/contributing.md").read_text("utf-8")
    packages = {file.parent.name for file in (CHECKOUT / "streaming").glob("*/__init__.py")}

    assert {name for name in packages if f"`streaming/{name}/`" not in page} == set()
