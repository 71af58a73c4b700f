"""The files of other projects are those that the lock pins, and it names no host."""

import hashlib
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
LOCK = CHECKOUT / "streaming/console/static/vendor.lock.toml"
PACKAGES = tomllib.loads(LOCK.read_text("utf-8"))["packages"]


def test_every_file_is_the_one_that_is_pinned():
    for package in PACKAGES:
        for file in package["files"]:
            content = (CHECKOUT / file["target"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == file["sha256"], file["target"]


def test_no_other_file_is_served():
    pinned = {CHECKOUT / file["target"] for package in PACKAGES for file in package["files"]}

    assert set((LOCK.parent / "vendor").iterdir()) - pinned == set()


def test_the_lock_names_no_host():
    assert "://" not in LOCK.read_text("utf-8")
