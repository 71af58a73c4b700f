"""The documentation as a static site, built by Zensical from zensical.toml."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.docs.markdown import ROOT

CONFIG: Final = ROOT / "zensical.toml"
SITE: Final = ROOT / "build" / "site"


def build() -> Path:
    """Build the site; its front page.

    Raises:
        subprocess.CalledProcessError: Zensical found a mistake, and has said which.
    """
    _zensical("build", "--clean", "--strict")
    return SITE / "index.html"


def serve() -> None:
    """Serve the site, and build it again when a page changes, until Ctrl-C."""
    _zensical("serve")


def _zensical(command: str, *options: str) -> None:
    program = "from zensical.main import cli; cli()"
    subprocess.run(
        [sys.executable, "-c", program, command, "--config-file", str(CONFIG), *options],
        cwd=ROOT,
        check=True,
    )
