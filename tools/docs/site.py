"""The documentation as a static site, built by Zensical from zensical.toml."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.docs.markdown import ROOT

CONFIG: Final = "zensical.toml"


def build(root: Path = ROOT) -> Path:
    """Build the site of a checkout; its front page.

    Raises:
        subprocess.CalledProcessError: Zensical found a mistake, and has said which.
    """
    _zensical(root, "build", "--clean", "--strict")
    return root / "build" / "site" / "index.html"


def serve() -> None:
    """Serve the site, and build it again when a page changes, until Ctrl-C."""
    _zensical(ROOT, "serve")


def _zensical(root: Path, command: str, *options: str) -> None:
    program = "from zensical.main import cli; cli()"
    subprocess.run(
        [sys.executable, "-c", program, command, "--config-file", str(root / CONFIG), *options],
        cwd=root,
        check=True,
    )
