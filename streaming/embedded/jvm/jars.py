r"""The jars of Kafka and of Spark's connectors: pinned, downloaded once, verified at every use.

    lock (shipped)  -->  all there, sha256 right?  -- yes -->  paths            (about 0.03 s)
                              | missing          \-- wrong file: refused, in words
                              v
         one process at a time: download beside the cache, verify, move in

A file appears in the cache by one rename after its sha256 was found right, so that a killed
download, or another process at the same moment, never shows a part of a file. A cache that holds
everything is only read and may be read-only.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.cache_folder import user_cache_folder
from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.download import Download, download_with_jgo, progress_bar
from streaming.embedded.jvm.jar_lock import Jar, JarSet, lock_file, read_lock

if TYPE_CHECKING:
    from rich.console import Console

TITLES = {"kafka": "Apache Kafka", "spark": "Spark connectors"}
STAGING_PREFIX = ".staging-"


def resolve_jars(
    which: JarSet, cache_dir: Path | None = None, progress: "Console | None" = None
) -> list[Path]:
    """The jars of a class path, downloaded if they are not in the cache.

    Args:
        which: whose class path.
        cache_dir: where dlx keeps downloads; the user's own cache if not given.
        progress: a console to draw a progress bar on, if something must be downloaded.

    Returns:
        Absolute paths in class path order; each file has the sha256 of the lock.

    Raises:
        EmbeddedError: a jar could not be had, or is not the file that the lock names.
    """
    folder = (cache_dir or user_cache_folder()).absolute() / "jars"
    return ensure_jars(read_lock(lock_file(which)), folder, TITLES[which], progress)


def ensure_jars(
    jars: Sequence[Jar],
    folder: Path,
    title: str,
    progress: "Console | None" = None,
    download: Download = download_with_jgo,
) -> list[Path]:
    """Make a folder hold some jars; see `resolve_jars`."""
    if _missing(jars, folder):
        try:
            with _one_at_a_time(folder, progress):
                missing = _missing(jars, folder)  # another process may have just fetched them
                if missing:
                    _fetch(missing, folder, title, progress, download)
        except OSError as failure:
            raise EmbeddedError(_unusable(folder, failure)) from failure
    return [folder / jar.path for jar in jars]


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    """Those of the jars that are not there.

    Raises:
        EmbeddedError: one is there, but is another file than the lock names.
    """
    with ThreadPoolExecutor(2, "jar-check") as pool:  # hashing leaves Python's lock
        found = list(pool.map(lambda jar: _sha256(folder / jar.path), jars))
    for jar, sha256 in zip(jars, found, strict=True):
        if sha256 not in {None, jar.sha256}:
            raise EmbeddedError(
                f"{folder / jar.path} is not the {jar.coordinate} that dlx was tested with: its "
                f"sha256 is {sha256}, the lock names {jar.sha256}. The file was damaged or "
                "exchanged, and is not used. Delete it, and it is downloaded again."
            )
    return [jar for jar, sha256 in zip(jars, found, strict=True) if sha256 is None]


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise EmbeddedError(_unusable(path, failure)) from failure


def _fetch(
    jars: Sequence[Jar], folder: Path, title: str, progress: "Console | None", download: Download
) -> None:
    """Download jars, and move into the folder those that are what the lock names.

    Those that arrived are kept even if another one fails: the next try then needs fewer.
    """
    for left_over in folder.glob(f"{STAGING_PREFIX}*"):  # of a process that was killed
        shutil.rmtree(left_over, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=folder))
    try:
        total_bytes = sum(jar.size_bytes for jar in jars)
        with progress_bar(progress, title, total_bytes) as report:
            download(jars, staging, report)
    finally:
        wrong = [jar for jar in jars if not _move_in(jar, staging, folder)]
        shutil.rmtree(staging, ignore_errors=True)
    if wrong:
        raise EmbeddedError(
            f"what was downloaded as {wrong[0].coordinate} is another file than the lock names "
            f"(sha256 {wrong[0].sha256}); it was thrown away. A proxy or mirror on the way may "
            "have replaced it: try another network or mirror."
        )


def _move_in(jar: Jar, staging: Path, folder: Path) -> bool:
    if _sha256(staging / jar.path) != jar.sha256:
        return False
    target = folder / jar.path
    target.parent.mkdir(parents=True, exist_ok=True)
    (staging / jar.path).replace(target)
    return True


@contextmanager
def _one_at_a_time(folder: Path, progress: "Console | None") -> Iterator[None]:
    """Hold the folder's lock, which the system frees even if the holder is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if progress:
                progress.print("waiting for another dlx that is downloading ...")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _unusable(path: Path, failure: OSError) -> str:
    return (
        f"the cache cannot be used: {failure.strerror or failure} ({failure.filename or path}). "
        "Make room or give write access there, or set XDG_CACHE_HOME to another folder."
    )
