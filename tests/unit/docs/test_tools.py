"""The tools behind the documentation: terminals, sessions, Markdown."""

import sys
import xml.etree.ElementTree as ET

import pytest

from tools.docs.markdown import broken_links, slug
from tools.docs.recordings import USERS_FOLDER, abridged
from tools.docs.sessions import Sessions, steps
from tools.docs.terminal import picture, record, screen

RED, PLAIN = "\x1b[31m", "\x1b[0m"


@pytest.mark.parametrize(
    ("printed", "left"),
    [
        ("a\r\nb", ["a", "b"]),
        ("old\r\x1b[2Knew", ["new"]),
        ("one\r\ntwo\r\x1b[2K\x1b[1A\x1b[2Kthree\r\n", ["three", ""]),
        (f"{RED}red{PLAIN}", [f"{RED}red{PLAIN}"]),
        ("\x1b[?25lhidden cursor", ["hidden cursor"]),
    ],
)
def test_a_screen_keeps_lines_that_are_not_overwritten(printed, left):
    assert screen(printed) == left


def test_a_program_is_recorded_in_a_terminal(tmp_path):
    program = "import sys; print(sys.stdout.isatty())"

    assert record([sys.executable, "-c", program], tmp_path)[0] == "True"


def test_a_picture_is_svg_with_the_lines_and_nothing_from_the_network():
    svg = picture([f"{RED}dead{PLAIN} letters"], "example")

    assert ET.fromstring(svg).tag.endswith("svg")  # noqa: S314 - made by this test
    assert "dead" in svg
    assert "@font-face" not in svg


def test_the_picture_of_the_demo_has_one_view_of_the_queues_and_no_token():
    view = ["[30/30 s]  the shop is closed", "payments", "console  http://a/?token=b-c_d"]
    waits = ["[30/30 s]  waiting", f"{RED}payments{PLAIN}", "console  http://a/?token=b-c_d"]
    report = ["Dead letters, by queue", "  7", "Some of them", "  x", "Balance of all", "  0", ""]

    shown = abridged(["kept in /a/demo", *view, "", "Send them back", *waits, *report], "/a/demo")

    assert shown == [
        f"kept in {USERS_FOLDER}",
        *("[30/30 s]  the shop is closed", "payments", "console  http://a/?token=..."),
        *("", "Send them back", "Dead letters, by queue", "  7", "...", ""),
        *("Balance of all", "  0"),
    ]


def test_a_session_is_compared_by_form_and_its_values_are_used_later(tmp_path):
    shell = Sessions(tmp_path)

    assert shell.differences("$ echo got 8.0.0\ngot 7.1.2\n") == []
    assert shell.run("echo 7.1.2") == "8.0.0\n"
    assert len(shell.differences("$ echo yes\nno\n")) == 1


def test_a_duration_is_compared_by_its_form(tmp_path):
    shell = Sessions(tmp_path)

    assert (
        shell.differences("$ echo died after 812ms, held 12s\ndied after 7.423s, held 4s\n") == []
    )


def test_a_session_has_steps():
    assert [tuple(step) for step in steps("$ a\n1\n2\n$ b\n")] == [("a", "1\n2\n"), ("b", "")]


def test_links_are_checked_with_their_anchors(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two` Three!\n[a](#one-two-three) [b](#missing) [c](other.md) [d](page.md)\n"
        "```text\n[e](not-a-link.md)\n```\n"
    )

    assert slug("One `two` Three!") == "one-two-three"
    assert broken_links(page) == ["#missing", "other.md"]
