"""Suites that no other registry has: they are in the sources that Debian builds its packages of."""

import subprocess
from pathlib import Path
from typing import Final

from tests.suites.outcomes import SuiteError, output

_RELEASES: Final = ("trixie", "sid")
_INDEX: Final = ("apt-get", "indextargets", "--format", "$(REPO_URI)")
_MAIN: Final = ("Created-By: Packages", "Component: main", "Origin: Debian")


def debian_source(name: str, folder: Path) -> Path:
    """The archive of a source package's authors, fetched once.

    Args:
        name: with its version: `python-pika=1.3.2-1`.

    Raises:
        SuiteError: apt does not know it, or this is no Debian.
    """
    package = name.partition("=")[0]
    found = next(folder.glob(f"{package}_*.orig.tar.*"), None)
    if found is None:
        apt = [*_apt(folder.parent / "debian")]
        command = ["apt-get", *apt, "source", "-qq", "--download-only", name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        found = next(folder.glob(f"{package}_*.orig.tar.*"), None)
        if found is None:  # what Debian adds may be missing: it is not needed
            raise SuiteError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return found


def _apt(folder: Path) -> tuple[str, ...]:
    """Options of apt for lists of sources in a folder: of the mirror that the machine uses."""
    lists = folder / "sources.list"
    for each in ("lists/partial", "cache/archives/partial", "parts"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    options = (
        f"Dir::Etc::sourcelist={lists}",
        f"Dir::Etc::sourceparts={folder / 'parts'}",
        f"Dir::State::lists={folder / 'lists'}",
        f"Dir::Cache={folder / 'cache'}",
        "APT::Sandbox::User=root",
    )
    arguments = tuple(part for option in options for part in ("-o", option))
    if not lists.exists():
        mirrors = output([*_INDEX, *_MAIN], folder).split()
        if not mirrors:
            raise SuiteError("the suite needs apt with packages of Debian")
        mirror = min(mirrors, key=len)
        wanted = "".join(f"deb-src {mirror} {release} main\n" for release in _RELEASES)
        lists.write_text(wanted, "utf-8")
        output(["apt-get", *arguments, "update", "-qq"], folder)
    return arguments
