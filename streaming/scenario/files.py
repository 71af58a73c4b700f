"""Read scenario files: a FILE itself, or all `*.json` directly in a DIR, sorted."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from streaming.scenario.decoding import DOCUMENT
from streaming.scenario.document import File, parse_file
from topology.errors import Problem


class Read(NamedTuple):
    """A file that was read: its name and content."""

    name: str
    file: File


def read_files(names: list[str]) -> Iterator[Read]:
    """Read the scenarios of files and directories, one file after the other.

    Files that cannot be found or read yield a problem; nothing is raised.
    """
    for name in names:
        try:
            paths = _files_of(Path(name))
        except OSError as error:
            yield _unreadable(name, _words(error))
            continue
        if not paths:
            yield _unreadable(name, "has no *.json files")
        for path in paths:
            yield _read(path)


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = (entry for entry in path.iterdir() if entry.suffix == ".json" and entry.is_file())
    return sorted(entry for entry in found if not entry.name.startswith("."))


def _read(path: Path) -> Read:
    try:
        text = path.read_bytes()
    except OSError as error:
        return _unreadable(str(path), _words(error))
    return Read(str(path), parse_file(text, path.stem))


def _unreadable(name: str, what: str) -> Read:
    return Read(name, File((), (Problem(DOCUMENT, what),)))


def _words(error: OSError) -> str:
    """The reason of an error, such as `no such file or directory`."""
    reason = error.strerror or "cannot be read"
    return reason[0].lower() + reason[1:]
