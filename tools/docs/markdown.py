"""The Markdown of the README and of docs/: its code blocks, headings and links."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"

_FENCE: Final = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ANCHOR: Final = re.compile(r'<a id="([^"]+)">')
_LINK: Final = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_INLINE_CODE: Final = re.compile(r"`[^`\n]+`")


class Block(NamedTuple):
    """A fenced code block.

    Attributes:
        page: its file, relative to the checkout.
        line: where it begins.
        note: the HTML comment right above it, or the empty string.
        span: where its text begins and ends in the file.
    """

    page: str
    line: int
    language: str
    note: str
    text: str
    span: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """The README and every page of docs/ and its folders."""
    return [README, *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """A page's path relative to the checkout."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """Every fenced code block of a page."""
    text = page.read_text("utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        yield Block(
            name_of(page),
            line,
            found["language"],
            found["note"] or "",
            found["text"],
            found.span("text"),
        )


def all_blocks() -> list[Block]:
    """Every fenced code block of every page."""
    return [block for page in pages() for block in blocks(page)]


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """What a link into the page may name: the slugs of its headings, and ids."""
    text = prose(page)
    return {slug(heading) for heading in _HEADING.findall(text)} | set(_ANCHOR.findall(text))


def slug(heading: str) -> str:
    """The anchor of a heading."""
    words = re.sub(r"[^\w\s-]", "", heading.lower())
    return re.sub(r"\s", "-", words.strip())


def links(page: Path) -> list[str]:
    """The targets of all links and images of a page."""
    return [found["target"] for found in _LINK.finditer(_INLINE_CODE.sub("", prose(page)))]


def broken_links(page: Path) -> list[str]:
    """The relative links of a page whose file or anchor does not exist."""
    broken = []
    for target in links(page):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    return broken


def replace(block: Block, text: str) -> None:
    """Write another text into a block."""
    page = ROOT / block.page
    before = page.read_text("utf-8")
    start, end = block.span
    page.write_text(before[:start] + text + before[end:], "utf-8")
