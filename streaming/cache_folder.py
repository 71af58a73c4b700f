"""The user's cache folder, shared by all jobs and checkouts.

It holds what can be downloaded or built again: jars, a Java, a compiled core, the demo's files.
"""

from pathlib import Path


def user_cache_folder() -> Path:
    """The cache folder; it need not exist yet. An absolute `XDG_CACHE_HOME` decides where it is."""
    import platformdirs  # noqa: PLC0415 - every command imports this module, and few need the folder

    return platformdirs.user_cache_path("dlx-stream", appauthor=False)
