"""Rules, decisions, sections and documents that code and tests name are defined in docs/."""

import re

import pytest

from tools.docs.markdown import DOCS, ROOT
from tools.docs.reference import command_paths

SEMANTICS = (DOCS / "semantics.md").read_text("utf-8")
DESIGN = (DOCS / "design.md").read_text("utf-8")
SOURCES = [
    file
    for folder in ("streaming", "topology", "tests", "examples", "tools")
    for kind in ("py", "json")
    for file in sorted((ROOT / folder).rglob(f"*.{kind}"))
]
RULE = re.compile(r"\bR-[A-Z]+-\d+\b")
DECISION = re.compile(r"(?<=[( ])D\d+b?(?=[,):])")
SECTION = re.compile(r"docs/semantics\.md sections? (\d+)(?: and (\d+))?")


def texts(pattern):
    """Each thing that a source refers to, with the source."""
    return [
        (found, file.relative_to(ROOT).as_posix())
        for file in SOURCES
        for found in pattern.findall(file.read_text("utf-8"))
    ]


def test_every_referenced_rule_is_defined():
    defined = set(re.findall(r'<a id="r-[a-z]+-\d+"></a>\*\*(R-[A-Z]+-\d+)\*\*', SEMANTICS))

    assert len(defined) > 150
    assert [each for each in texts(RULE) if each[0] not in defined] == []


def test_every_command_that_people_are_told_to_type_exists():
    paths = set(command_paths())
    groups = {path[0] for path in paths if len(path) > 1}
    pages = (
        ROOT / "README.md",
        *(one for one in sorted(DOCS.glob("*.md")) if one.name != "cli.md"),
    )
    said = [
        (tuple(words.split()), file.name)
        for file in (*pages, *sorted((ROOT / "streaming/console").rglob("*.html")))
        for words in re.findall(r"(?:`|<code>)(?:\./)?dlx ([a-z][a-z -]*)", file.read_text("utf-8"))
    ]

    assert len(said) > 100
    for words, file in said:
        assert words[:1] in paths, (words, file)
        if words[0] in groups and len(words) > 1 and words[1].isalpha():
            assert words[:2] in paths, (words, file)


def test_every_rule_is_defined_once_under_its_own_anchor():
    found = re.findall(r'<a id="([^"]+)"></a>\*\*([^*]+)\*\*', SEMANTICS)

    assert [pair for pair in found if pair[0] != pair[1].lower()] == []
    assert len(found) == len(set(found))


def test_rules_refer_only_to_existing_rules():
    defined = set(re.findall(r"\*\*(R-[A-Z]+-\d+)\*\*", SEMANTICS))

    for page in DOCS.glob("*.md"):
        assert set(RULE.findall(page.read_text("utf-8"))) <= defined


def test_every_referenced_decision_is_defined():
    defined = set(re.findall(r"^### (D\d+b?)\.", DESIGN, re.MULTILINE))
    used = {each for each in texts(DECISION) if "streaming" in each[1] or "topology" in each[1]}

    assert {"D1", "D6b", "D11"} <= defined
    assert [each for each in sorted(used) if each[0] not in defined] == []


def test_every_referenced_section_exists():
    sections = set(re.findall(r"^## (\d+)\.", SEMANTICS, re.MULTILINE))

    found = texts(SECTION)

    assert found
    for numbers, file in found:
        assert {number for number in numbers if number} <= sections, file


@pytest.mark.parametrize("number", ["000", "001", "002", "003", "004"])
def test_the_source_documents_are_named(number):
    assert f"| {number} |" in SEMANTICS
