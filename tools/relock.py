"""Rewrite the lock files after editing coordinates: `python -m tools.relock`.

Downloads each jar again and records its size and sha256; review the difference.
"""

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import get_args

from streaming.embedded.jvm.jars import download_with_jgo
from streaming.embedded.jvm.pinned_jars import Jar, JarSet, lock_file, read_lock

TESTS = Path(__file__).parents[1] / "tests"
PERF_TEST = TESTS / "bench/pipeline/perf_test.lock.toml"
HDFS = TESTS / "fixtures/hdfs.lock.toml"
HEADER = "# The class path of {which}, to the byte. Written by tools/relock.py.\n"


def relock(path: Path, which: str) -> None:
    """Download the jars of a lock file, and record their sizes and hashes."""
    with tempfile.TemporaryDirectory() as folder:
        jars = read_lock(path)
        download_with_jgo(jars, Path(folder), lambda _count: None)
        path.write_text(
            HEADER.format(which=which) + "".join(_entry(jar, Path(folder)) for jar in jars), "utf-8"
        )


def _entry(jar: Jar, folder: Path) -> str:
    content = (folder / jar.path).read_bytes()
    new = replace(jar, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
    classifier = f'classifier = "{new.classifier}"\n' if new.classifier else ""
    why = f'why = "{new.why}"\n' if new.why else ""
    return (
        "\n[[dependencies]]\n"
        f'groupId = "{new.group}"\n'
        f'artifactId = "{new.artifact}"\n'
        f'version = "{new.version}"\n'
        f"{classifier}"
        f'sha256 = "{new.sha256}"\n'
        f"size_bytes = {new.size_bytes}\n"
        f"{why}"
    )


if __name__ == "__main__":
    for name in get_args(JarSet):
        relock(lock_file(name), name)
    relock(PERF_TEST, "RabbitMQ's PerfTest")
    relock(HDFS, "HDFS for tests")
