"""The pages of client libraries: each has a program that was run, and pika's is run here."""

import re

import pytest

from tests.clients.programs import FOLDER, PROGRAMS, text_of
from tests.clients.running import run_program

PAGES = {page.stem: page.read_text("utf-8") for page in FOLDER.glob("*.md")}
SECTIONS = ["Connect", "Retry and dead letters", "The clock by hand", "What differs"]


def test_every_page_has_a_program_or_says_that_none_was_run():
    assert PAGES.keys() - PROGRAMS.keys() == {"masstransit"}
    assert PROGRAMS.keys() <= PAGES.keys()
    assert "was not run here" in PAGES["masstransit"]


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_has_the_sections_of_all(name):
    assert re.findall(r"^## (.*)$", PAGES[name], re.MULTILINE) == SECTIONS


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"pika"}))
def test_a_page_says_when_and_with_which_version_its_program_was_run(name):
    first = " ".join(PAGES[name].split("\n## ")[0].split())

    assert re.search(r"Run on \d+ \w+ 20\d\d with .*\d+\.\d+", first)
    assert f"`python -m tests.clients {name}`" in first
    program = PROGRAMS[name]
    needs = " ".join([*program.packages, *(text for _, text in program.files)])
    for version in re.findall(r"==([\d.]+)|<version>(\d+\.[\d.]+)<|amqp091-go v([\d.]+)", needs):
        assert "".join(version) in first


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_connects_and_moves_the_clock(name):
    text = text_of(name)

    assert re.search(r'localhost:5672|"localhost", 5672', text)
    assert "http://localhost:15673/api/dlx/clock" in text


def test_the_program_of_the_library_that_is_installed_does_what_its_page_says(tmp_path):
    run_program("pika", tmp_path)
