"""Generated documentation is current; `./dlx docs --generate` renews it."""

import re

import pytest

from streaming.broker.events import Kind
from streaming.ledger.schema.schemas import TABLES
from tools.docs import measurements, reference
from tools.docs.markdown import DOCS, README, name_of, pages

README_LINES = 200


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_the_generated_parts_of_a_page_are_current(page):
    text = page.read_text("utf-8")

    assert reference.renewed(text) == text


def test_the_schema_of_scenarios_is_current():
    assert reference.SCENARIO_SCHEMA.read_text("utf-8") == reference.scenario_schema()


def test_the_picture_of_the_figures_is_current():
    assert measurements.PICTURE.read_text("utf-8") == measurements.picture()


def test_every_generated_part_has_a_place():
    text = "".join(page.read_text("utf-8") for page in pages())

    assert [name for name in reference.PARTS if f"<!-- begin {name} -->" not in text] == []


def test_the_readme_has_six_rows_of_compatibility_and_is_short():
    rows = [row for rows in reference.compatibility_groups().values() for row in rows]

    assert len([row for row in rows if row.readme]) == 6
    assert {row.status for row in rows} == {"same", "differs", "absent"}
    assert all(row.note for row in rows if row.status != "same")
    assert len(README.read_text("utf-8").splitlines()) <= README_LINES


def test_the_page_of_the_tables_has_every_table():
    page = (DOCS / "tables.md").read_text("utf-8")

    assert all(f"## {name}\n" in page for name in TABLES)


def test_the_page_of_the_tables_says_what_every_kind_of_event_means():
    page = (DOCS / "tables.md").read_text("utf-8")
    meanings = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE))

    assert [
        kind.name for kind in Kind if len(meanings.get(kind.name.lower(), "").split()) < 4
    ] == []
