"""Where tables are: a folder of this machine, or a URL of an object store. Loads no library."""

from pathlib import Path
from urllib.parse import unquote, urlsplit


def local_path(url: str) -> Path | None:
    """The folder that a path or a `file:` URL names; None for any other URL."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if len(parts.scheme) > 1 else Path(url)
