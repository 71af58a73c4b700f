import fcntl
import hashlib
import io
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.jars import Report, ensure_jars
from streaming.embedded.jvm.pinned_jars import Jar


def a_jar(artifact: str, content: bytes = b"") -> Jar:
    content = content or artifact.encode()
    return Jar("org.example", artifact, "1", hashlib.sha256(content).hexdigest(), len(content))


class Mirror:
    """Downloads from memory: each jar's content is its artifact's name, unless exchanged."""

    def __init__(self, **exchanged: bytes) -> None:
        self.exchanged = exchanged
        self.asked: list[str] = []

    def __call__(self, jars: Sequence[Jar], folder: Path, report: Report) -> None:
        for jar in jars:
            self.asked.append(jar.artifact)
            content = self.exchanged.get(jar.artifact, jar.artifact.encode())
            if content == b"unreachable":
                raise EmbeddedError(f"{jar.coordinate} could not be downloaded")
            (folder / jar.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / jar.path).write_bytes(content)
            report(len(content))


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*.jar"))
        if path.is_file()
    }


A, B = a_jar("a"), a_jar("b")
A_PATH, B_PATH = "org/example/a/1/a-1.jar", "org/example/b/1/b-1.jar"


def test_jars_that_are_missing_are_downloaded_and_returned_in_class_path_order(tmp_path):
    mirror = Mirror()

    paths = ensure_jars([B, A], tmp_path, "jars", download=mirror)

    assert paths == [tmp_path / B_PATH, tmp_path / A_PATH]
    assert files_in(tmp_path) == {A_PATH: b"a", B_PATH: b"b"}


def test_a_classifier_is_part_of_the_name_of_a_jar():
    jar = Jar("org.example", "a", "1", "", 0, classifier="shaded")

    assert jar.coordinate == "org.example:a:1:shaded"
    assert jar.path == Path("org/example/a/1/a-1-shaded.jar")


def test_only_missing_jars_are_downloaded(tmp_path):
    ensure_jars([A], tmp_path, "jars", download=Mirror())
    mirror = Mirror()

    ensure_jars([A, B], tmp_path, "jars", download=mirror)

    assert mirror.asked == ["b"]


def test_a_full_cache_is_only_read(tmp_path):
    ensure_jars([A], tmp_path, "jars", download=Mirror())
    (tmp_path / ".lock").unlink()
    mirror = Mirror()

    ensure_jars([A], tmp_path, "jars", download=mirror)

    assert mirror.asked == []
    assert not (tmp_path / ".lock").exists()


def test_a_jar_with_a_wrong_checksum_is_refused_with_a_remedy(tmp_path):
    ensure_jars([A], tmp_path, "jars", download=Mirror())
    (tmp_path / A_PATH).write_bytes(b"evil")
    mirror = Mirror()

    with pytest.raises(EmbeddedError) as refused:
        ensure_jars([A], tmp_path, "jars", download=mirror)

    named = (tmp_path / A_PATH, "org.example:a:1", hashlib.sha256(b"evil").hexdigest(), A.sha256)
    assert all(str(part) in str(refused.value) for part in named)
    assert mirror.asked == []


def test_a_download_with_a_wrong_checksum_is_refused_and_deleted(tmp_path):
    with pytest.raises(EmbeddedError) as refused:
        ensure_jars([A, B], tmp_path, "jars", download=Mirror(b=b"a page that asks you to log in"))

    assert all(part in str(refused.value) for part in ("org.example:b:1", B.sha256, "mirror"))
    assert files_in(tmp_path) == {A_PATH: b"a"}


def test_jars_downloaded_before_a_failure_are_kept(tmp_path):
    with pytest.raises(EmbeddedError, match=r"org\.example:b:1 could not be downloaded"):
        ensure_jars([A, B], tmp_path, "jars", download=Mirror(b=b"unreachable"))
    mirror = Mirror()

    ensure_jars([A, B], tmp_path, "jars", download=mirror)

    assert mirror.asked == ["b"]


def test_partial_files_of_a_killed_download_are_removed(tmp_path):
    left_over = tmp_path / ".staging-killed"
    left_over.mkdir()
    (left_over / "part").touch()

    ensure_jars([A], tmp_path, "jars", download=Mirror())

    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "org"]


class Screen(io.StringIO):
    """A terminal on which a test can wait for a text."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = threading.Event()

    def flush(self) -> None:
        self.shown.set()


def test_a_second_process_waits_for_the_first_with_a_message_and_downloads_nothing(tmp_path):
    screen, mirror = Screen(), Mirror()
    with (tmp_path / ".lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = threading.Thread(
            target=ensure_jars, args=([A], tmp_path, "jars", Console(file=screen), mirror)
        )
        second.start()
        assert screen.shown.wait(30)
        (tmp_path / A_PATH).parent.mkdir(parents=True)
        (tmp_path / A_PATH).write_bytes(b"a")
    second.join(30)

    assert not second.is_alive()
    assert mirror.asked == []
    assert screen.getvalue() == "waiting for another dlx process that is downloading ...\n"


def test_concurrent_processes_download_once(tmp_path):
    mirror = Mirror()
    threads = [
        threading.Thread(target=ensure_jars, args=([A, B], tmp_path, "jars", None, mirror))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sorted(mirror.asked) == ["a", "b"]
    assert files_in(tmp_path) == {A_PATH: b"a", B_PATH: b"b"}


def test_a_progress_bar_shows_the_title_and_the_total_size(tmp_path):
    screen = io.StringIO()

    ensure_jars([A, B], tmp_path, "Some jars", Console(file=screen, width=100), Mirror())

    assert "Some jars" in screen.getvalue()
    assert "2/2 bytes" in screen.getvalue()


def test_a_cache_that_cannot_be_written_is_named_with_the_remedy(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(EmbeddedError) as refused:
        ensure_jars([A], tmp_path / "file" / "jars", "jars", download=Mirror())

    path = tmp_path / "file" / "jars" / A_PATH
    assert f"Not a directory ({path})" in str(refused.value)
    assert "XDG_CACHE_HOME" in str(refused.value)
