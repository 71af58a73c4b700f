"""Where downloads are kept: one folder a user, shared by all jobs and checkouts."""

import os
from collections.abc import Mapping
from pathlib import Path

CACHE_NAME = "dlx-stream"


def user_cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder for what can be downloaded again; it need not exist yet.

    `XDG_CACHE_HOME` decides where it is if it holds an absolute path, as its specification asks;
    otherwise it is in `~/.cache`.
    """
    base = Path(environment.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path("~/.cache").expanduser()
    return base / CACHE_NAME
