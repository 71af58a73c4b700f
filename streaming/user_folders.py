"""The user's folders, shared by all jobs and checkouts.

The cache holds what can be downloaded or built again: jars, a Java, the demo's
files. The state folder holds the path of the last demo's configuration, so that commands find the
demo from any folder; sealed plans of redrives; and what the console and `dlx query` remember.
"""

from pathlib import Path
from typing import Final

APPLICATION: Final = "dlx-stream"
CONFIG_NAME: Final = "dlx.toml"

EDITS: Final = ".edits"
"""How a file beside a plan ends that has what the plan's edits change, bodies included."""


def user_cache_folder() -> Path:
    """The cache folder; it need not exist yet. An absolute `XDG_CACHE_HOME` decides where it is."""
    import platformdirs  # noqa: PLC0415 - every command imports this module, and few need the folder

    return platformdirs.user_cache_path(APPLICATION, appauthor=False)


def user_state_folder() -> Path:
    """The state folder; it need not exist yet. An absolute `XDG_STATE_HOME` decides where it is."""
    import platformdirs  # noqa: PLC0415 - the same

    return platformdirs.user_state_path(APPLICATION, appauthor=False)


def plans_folder() -> Path:
    """Where sealed plans of redrives are kept by their id."""
    return user_state_folder() / "plans"


def demo_folder(*, in_cluster: bool = False) -> Path:
    """Where the demo keeps its files unless it is told otherwise."""
    return user_cache_folder() / ("demo-cluster" if in_cluster else "demo")


def remember_demo(file: Path) -> None:
    """Record the configuration of a demo as the last one.

    Raises:
        OSError: the state folder cannot be written.
    """
    record = _record()
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(f"{file.absolute()}\n", "utf-8")


def last_demo() -> Path | None:
    """The configuration of the last demo whose files still exist."""
    try:
        recorded = Path(_record().read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError):
        recorded = None
    for file in (recorded, demo_folder() / CONFIG_NAME):
        if file is not None and file.is_file():
            return file
    return None


def _record() -> Path:
    return user_state_folder() / "last-demo"
