"""Fetch the files of other projects that the console serves: `python -m tools.vendor`.

`npm pack` downloads each package of streaming/console/static/vendor.lock.toml; npm decides from
where. Packages and files must have the sha256 that the lock pins. With `--renew`, after a version
was changed in the lock, it records the new ones instead; review the difference.
"""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

import tomlkit

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "streaming/console/static/vendor.lock.toml"


def fetch(package: Any, *, renew: bool) -> None:
    """Download a package and write its files.

    Raises:
        SystemExit: the package, or a file of it, is not what the lock pins.
    """
    name = f"{package['name']}@{package['version']}"
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        _pin(package, archive.read_bytes(), name, renew=renew)
        with tarfile.open(archive) as opened:
            for file in package["files"]:
                member = opened.extractfile(f"package/{file['source']}")
                assert member is not None, "npm packages have regular files"
                content = member.read()
                _pin(file, content, f"{name}: {file['source']}", renew=renew)
                target = ROOT / str(file["target"])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)


def _pin(entry: Any, content: bytes, what: str, *, renew: bool) -> None:
    found = hashlib.sha256(content).hexdigest()
    if renew:
        entry["sha256"] = found
    elif entry["sha256"] != found:
        sys.exit(f"{what}: its sha256 is {found}, but {LOCK.name} pins {entry['sha256']}")


if __name__ == "__main__":
    lock = tomlkit.parse(LOCK.read_text("utf-8"))
    for each in lock["packages"]:
        fetch(each, renew="--renew" in sys.argv[1:])
    LOCK.write_text(tomlkit.dumps(lock), "utf-8")
