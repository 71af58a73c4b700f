"""The sessions of docs/dead-letters.md and docs/sql.md, run on the tables of the shop."""

import pytest

from tools.docs import shop
from tools.docs.markdown import all_blocks
from tools.docs.registry import OF_SHOP, PLACE

BLOCKS = [
    pytest.param(block, id=str(block))
    for block in all_blocks()
    if PLACE.get(block.page) in OF_SHOP and block.language == "console"
]


@pytest.fixture(scope="module")
def shell():
    with shop.sessions() as sessions:
        yield sessions


@pytest.mark.parametrize("block", BLOCKS)
def test_a_session_prints_what_the_page_shows(shell, block):
    assert shell.differences(block.text) == []


def test_the_programs_of_the_page_run(shop_root, tmp_path, monkeypatch, capsys):
    (tmp_path / "tables").symlink_to(shop_root)
    monkeypatch.chdir(tmp_path)
    programs = [
        block.text
        for block in all_blocks()
        if (block.page, block.language) == ("docs/dead-letters.md", "python")
    ]

    for text in programs:
        exec(compile(text, "docs/dead-letters.md", "exec"), {})  # noqa: S102 - the code of the page

    assert capsys.readouterr().out.splitlines() == ["1 rejected", "1 billing None"]
