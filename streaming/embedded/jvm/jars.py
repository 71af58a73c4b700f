r"""The jars of Kafka and of Spark's connectors: pinned, downloaded once, verified at every use.

    lock (shipped)  -->  all there, sha256 right?  -- yes -->  paths            (about 0.03 s)
                              | missing          \-- wrong file: refused
                              v
         one process at a time: download beside the cache, verify, move in

A file appears in the cache by one rename after its sha256 was verified, so a killed download never
leaves a partial file. A complete cache is only read and may be read-only.

jgo downloads the files from the Maven repositories in its settings (`~/.config/jgo.conf`, section
`[repositories]`), which can name a mirror. Any mirror is safe, since every file is verified.
"""

import hashlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.pinned_jars import Jar, JarSet, lock_file, read_lock
from streaming.user_folders import user_cache_folder

if TYPE_CHECKING:
    from rich.console import Console

TITLES = {
    "kafka": "Apache Kafka",
    "spark": "Spark connectors",
    "s3": "S3 for Spark",
    "azure": "Azure for Spark",
    "gcs": "Google's storage for Spark",
}
STAGING_PREFIX = ".staging-"
PARALLEL_DOWNLOADS = 4
ATTEMPTS = 3
PAUSE_S = 0.5
TIMEOUT_S = 30

Report = Callable[[int], None]
"""Receives the number of bytes that arrived; called by several threads."""

Download = Callable[[Sequence[Jar], Path, Report], None]
"""Puts jars into a folder, at their `Jar.path`; raises EmbeddedError if a download fails."""


def download_with_jgo(jars: Sequence[Jar], folder: Path, report: Report) -> None:
    """Download jars, several at a time.

    Raises:
        EmbeddedError: a download failed repeatedly.
    """
    from jgo.config import GlobalSettings  # noqa: PLC0415 (slow to import, rarely needed)
    from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
    from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415

    @contextmanager
    def progress_of_one_file(_name: str, _size_bytes: int) -> Iterator[Report]:
        yield report

    maven = MavenContext(
        resolver=PythonResolver(progress_callback=progress_of_one_file),
        repo_cache=folder,
        remote_repos={"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories},
        timeout=TIMEOUT_S,
    )
    given_up = threading.Event()

    def fetch(jar: Jar) -> None:
        artifact = (
            maven.project(jar.group, jar.artifact).at_version(jar.version).artifact(jar.classifier)
        )
        for attempt in range(1, ATTEMPTS + 1):
            if given_up.is_set():
                return
            try:
                artifact.resolve()
            except (OSError, RuntimeError) as failure:  # errors of requests are OSErrors
                # jgo would take a partial file for complete
                (folder / jar.path).unlink(missing_ok=True)
                if attempt == ATTEMPTS:
                    given_up.set()
                    raise EmbeddedError(_cannot_download(jar, failure)) from failure
                time.sleep(PAUSE_S * attempt)
            else:
                return

    with ThreadPoolExecutor(PARALLEL_DOWNLOADS, "jar-download") as pool:
        for _ in pool.map(fetch, jars):
            pass


def _cannot_download(jar: Jar, failure: Exception) -> str:
    return (
        f"{jar.coordinate} could not be downloaded: {failure}\n"
        "Check the network and the proxy settings (HTTPS_PROXY, REQUESTS_CA_BUNDLE), or set a "
        "mirror in the section [repositories] of ~/.config/jgo.conf. Complete files are kept, so "
        "the next attempt resumes here."
    )


@contextmanager
def progress_bar(console: "Console | None", title: str, total_bytes: int) -> Iterator[Report]:
    """A progress bar of all downloads; none without a console."""
    if console is None:
        yield lambda _count: None
        return
    from rich import progress  # noqa: PLC0415 (only needed to show something)

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console) as bars:
        task = bars.add_task(title, total=total_bytes)
        yield lambda count: bars.advance(task, count)


def resolve_jars(
    which: JarSet, cache_dir: Path | None = None, progress: "Console | None" = None
) -> list[Path]:
    """The jars of a class path, downloaded if they are not in the cache.

    Args:
        cache_dir: folder of downloads; by default the user's cache.

    Returns:
        Absolute paths in class path order; each file has the sha256 of the lock.

    Raises:
        EmbeddedError: a jar could not be downloaded, or is not the file that the lock names.
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
    """Ensure that a folder holds jars; see `resolve_jars`."""
    if _missing(jars, folder):
        try:
            with _one_at_a_time(folder, progress):
                missing = _missing(jars, folder)  # another process may have fetched them meanwhile
                if missing:
                    _fetch(missing, folder, title, progress, download)
        except OSError as failure:
            raise EmbeddedError(_unusable(folder, failure)) from failure
    return [folder / jar.path for jar in jars]


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    """The jars that are missing from a folder; EmbeddedError if a file is not the lock's."""
    with ThreadPoolExecutor(2, "jar-check") as pool:  # hashing releases the GIL
        found = list(pool.map(lambda jar: _sha256(folder / jar.path), jars))
    for jar, sha256 in zip(jars, found, strict=True):
        if sha256 not in {None, jar.sha256}:
            raise EmbeddedError(
                f"{folder / jar.path} is not the {jar.coordinate} that dlx was tested with: its "
                f"sha256 is {sha256}, but the lock names {jar.sha256}. The file is damaged or was "
                "replaced. Delete it, and dlx downloads it again."
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
    """Download jars, and move those that match the lock into the folder.

    Complete files are kept even if another download fails: the next attempt then needs fewer.
    """
    for left_over in folder.glob(f"{STAGING_PREFIX}*"):  # left by a killed process
        shutil.rmtree(left_over, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=folder))
    try:
        with progress_bar(progress, title, sum(jar.size_bytes for jar in jars)) as report:
            download(jars, staging, report)
    finally:
        wrong = [jar for jar in jars if not _move_in(jar, staging, folder)]
        shutil.rmtree(staging, ignore_errors=True)
    if wrong:
        raise EmbeddedError(
            f"the downloaded {wrong[0].coordinate} is not the file that the lock names (sha256 "
            f"{wrong[0].sha256}) and was discarded. A proxy or mirror may have replaced it: try "
            "another network or mirror."
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
    """Hold the folder's lock, which the system releases even if this process is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if progress:
            progress.print("waiting for another dlx process that is downloading ...")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _unusable(path: Path, failure: OSError) -> str:
    return (
        f"the cache cannot be used: {failure.strerror or failure} ({failure.filename or path}). "
        "Free some space or give write access, or set XDG_CACHE_HOME to another folder."
    )
