"""Finding scenario files."""

import pytest

from streaming.scenario.document import read_files
from topology.errors import Problem

MINIMAL = '{"steps": [], "end_ms": 0}'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with scenarios and other things; the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir" / "inner.json").mkdir(parents=True)
    (tmp_path / "dir" / "deeper").mkdir()
    for name in ("b.json", "a.json", "a.txt", ".hidden.json", "deeper/c.json", "inner.json/d.json"):
        (tmp_path / "dir" / name).write_text(MINIMAL)
    return tmp_path


def found(*names):
    """The names of the files, and of the scenarios in them."""
    return [
        (read.name, [scenario.id for scenario in read.file.scenarios])
        for read in read_files(list(names))
    ]


def test_a_directory_stands_for_its_json_files_without_subdirectories(folder):
    assert found("dir") == [("dir/a.json", ["a"]), ("dir/b.json", ["b"])]


def test_files_and_directories_keep_the_given_order(folder):
    assert found("dir/b.json", "dir/deeper", "dir/a.txt") == [
        ("dir/b.json", ["b"]),
        ("dir/deeper/c.json", ["c"]),
        ("dir/a.txt", ["a"]),
    ]


def test_an_unreadable_file_is_a_problem_and_the_others_are_read(folder):
    (folder / "empty").mkdir()

    reads = list(read_files(["nosuch.json", "empty", "dir/a.json/x", "dir/b.json"]))

    assert [(read.name, read.file.problems) for read in reads] == [
        ("nosuch.json", (Problem("document", "no such file or directory"),)),
        ("empty", (Problem("document", "has no *.json files"),)),
        ("dir/a.json/x", (Problem("document", "not a directory"),)),
        ("dir/b.json", ()),
    ]


def test_a_name_that_no_file_can_have_is_a_problem():
    name = "x" * 5000

    assert [(read.name, read.file.problems) for read in read_files([name])] == [
        (name, (Problem("document", "file name too long"),))
    ]
