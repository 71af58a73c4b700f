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
