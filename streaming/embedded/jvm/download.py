"""Fetch single jars from the Maven repositories that jgo is configured with.

jgo's own settings file (`~/.config/jgo.conf`, section `[repositories]`) can name a mirror; which
mirror it is does not matter for safety, since every file is checked against the lock.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.jar_lock import Jar

if TYPE_CHECKING:
    from rich.console import Console

Report = Callable[[int], None]
"""Told how many bytes more have arrived; called by several threads."""

Download = Callable[[Sequence[Jar], Path, Report], None]
"""Put jars below a folder, at their `Jar.path`; raises EmbeddedError if one cannot be had."""

AT_ONCE = 4
ATTEMPTS = 3
PAUSE_S = 0.5
SILENCE_S = 30


def download_with_jgo(jars: Sequence[Jar], folder: Path, report: Report) -> None:
    """Fetch jars, some at a time.

    Raises:
        EmbeddedError: one could not be had, also after trying again.
    """
    from jgo.config import GlobalSettings  # noqa: PLC0415 (slow to import, and seldom needed)
    from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
    from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415

    @contextmanager
    def progress_of_one_file(_name: str, _size_bytes: int) -> Iterator[Report]:
        yield report

    maven = MavenContext(
        resolver=PythonResolver(progress_callback=progress_of_one_file),
        repo_cache=folder,
        remote_repos={"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories},
        timeout=SILENCE_S,
    )
    given_up = threading.Event()

    def fetch(jar: Jar) -> None:
        artifact = maven.project(jar.group, jar.artifact).at_version(jar.version).artifact()
        for attempt in range(1, ATTEMPTS + 1):
            if given_up.is_set():
                return
            try:
                artifact.resolve()
            except (OSError, RuntimeError) as failure:  # requests' errors are OSErrors
                (folder / jar.path).unlink(missing_ok=True)  # else jgo would take the part for all
                if attempt == ATTEMPTS:
                    given_up.set()
                    raise EmbeddedError(_cannot_download(jar, failure)) from failure
                time.sleep(PAUSE_S * attempt)
            else:
                return

    with ThreadPoolExecutor(AT_ONCE, "jar-download") as pool:
        for _ in pool.map(fetch, jars):
            pass


def _cannot_download(jar: Jar, failure: Exception) -> str:
    return (
        f"{jar.coordinate} could not be downloaded: {failure}\n"
        "Check the network and the proxy settings (HTTPS_PROXY, REQUESTS_CA_BUNDLE); a mirror can "
        "be named in the section [repositories] of ~/.config/jgo.conf. What was already complete "
        "is kept, so a second try goes on from here."
    )


@contextmanager
def progress_bar(console: "Console | None", title: str, total_bytes: int) -> Iterator[Report]:
    """A bar for a whole download, on a console if one is given."""
    if console is None:
        yield lambda _count: None
        return
    from rich import progress  # noqa: PLC0415 (only where something is shown)

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
