"""The version of this program."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "dlx-stream"
CHECKOUT: Final = Path(__file__).resolve().parents[1]
"""The folder of pyproject.toml, unless the package is installed."""


def program_version(checkout: Path = CHECKOUT) -> str:
    """Return the version in the checkout that it runs from, or as installed."""
    file = checkout / "pyproject.toml"
    if file.is_file():
        return str(tomllib.loads(file.read_text("utf-8"))["project"]["version"])
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"
