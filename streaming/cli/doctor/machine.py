"""What a job needs from this machine: Python, packages, Java, jars, folders, ports.

A `Finding` is the result of one check, of the machine or of a job.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

import msgspec

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.pinned_jars import Jar, JarSet, lock_file, read_lock
from streaming.program_version import program_version
from streaming.user_folders import user_cache_folder

LEAST_PYTHON: Final = (3, 11)
JOB_PACKAGES: Final = ("pyspark", "delta-spark", "deltalake", "duckdb", "pyarrow", "pandas")
SPARK_JARS: Final = {"pyspark": "org.apache.spark", "delta-spark": "io.delta"}
"""Package -> group of its jars; their first two numbers must be equal."""

Status = Literal["ok", "warn", "fail"]

LOW_DISK_BYTES: Final = 5_000_000_000
FULL_DISK_BYTES: Final = 1_000_000_000


class Finding(msgspec.Struct, frozen=True):
    """The result of one check.

    Attributes:
        check: what was checked.
        detail: what was found.
        remedy: what to do about it; empty if nothing.
    """

    status: Status
    check: str
    detail: str
    remedy: str = ""


def size_text(size_bytes: int) -> str:
    """A number of bytes in the largest fitting unit: `1.5 GB`."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 - the step between the units
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def existing(path: Path) -> Path:
    """The path itself, or the nearest folder above it that exists."""
    return next(each for each in (path, *path.parents) if each.exists())


def check_folder(name: str, path: Path, remedy: str) -> Iterator[Finding]:
    """Check that a folder can be written to, or created, and that its disk has room.

    Args:
        name: what the folder is.
        remedy: how to choose another folder.
    """
    place = existing(path)
    if not place.is_dir():
        yield Finding("fail", name, f"{place} is a file, not a folder", remedy)
        return
    if not os.access(place, os.W_OK | os.X_OK):
        what = f"this user may not write to {place}"
        yield Finding("fail", name, what, f"grant write access, or {remedy}")
        return
    free = shutil.disk_usage(place).free
    detail = f"{path}, {size_text(free)} free"
    if not path.exists():
        detail += ", not created yet"
    if free < LOW_DISK_BYTES:
        status: Status = "fail" if free < FULL_DISK_BYTES else "warn"
        yield Finding(status, name, detail, f"free some space, or {remedy}")
    else:
        yield Finding("ok", name, detail)


def check_machine(checkout: Path) -> Iterator[Finding]:
    """Check everything that no configuration decides.

    Args:
        checkout: the folder of pyproject.toml, unless the package is installed.
    """
    yield Finding("ok", "dlx", f"version {program_version(checkout)}, in {checkout}")
    yield _python()
    yield from _packages()
    yield _librdkafka()
    yield _java()
    yield _jars("kafka")
    yield _jars("spark")
    yield from _cache()
    yield _loopback()


def _python() -> Finding:
    found = sys.version.split()[0]
    if sys.version_info < LEAST_PYTHON:
        return Finding("fail", "python", found, "install Python 3.11 or newer")
    return Finding("ok", "python", f"{found}, {sys.executable}")


def _packages() -> Iterator[Finding]:
    for package in JOB_PACKAGES:
        try:
            found = version(package)
        except PackageNotFoundError:
            remedy = "pip install 'dlx-stream[job]'"
            yield Finding(
                "fail", package, "is not installed; the job and its tables need it", remedy
            )
            continue
        jars = {
            jar.version
            for jar in read_lock(lock_file("spark"))
            if jar.group == SPARK_JARS.get(package)
        }
        if jars and _minor(found) not in map(_minor, jars):
            what = f"{found}, but the jars of the job are {', '.join(sorted(jars))}"
            remedy = f"pip install '{package}=={_minor(max(jars))}.*'"
            yield Finding("fail", package, what, remedy)
        else:
            yield Finding("ok", package, found)


def _minor(number: str) -> str:
    """The first two numbers of a version."""
    return ".".join(number.split(".")[:2])


def _librdkafka() -> Finding:
    try:
        import confluent_kafka
    except ImportError as error:
        return Finding("fail", "confluent-kafka", str(error), "pip install confluent-kafka")
    detail = f"{version('confluent-kafka')}, librdkafka {confluent_kafka.libversion()[0]}"
    return Finding("ok", "confluent-kafka", detail)


def _java() -> Finding:
    from streaming.embedded.jvm.java import find_java

    try:
        java = find_java()
    except EmbeddedError as error:
        what, _, remedy = str(error).partition(". Install")
        return Finding("fail", "java", what, f"install{remedy}")
    return Finding("ok", "java", f"{java.major} ({java.origin}), {java.home}")


def _jars(which: JarSet) -> Finding:
    name = f"{which} jars"
    folder = user_cache_folder() / "jars"
    jars = read_lock(lock_file(which))
    missing = _missing(which)
    if missing:
        size = size_text(sum(jar.size_bytes for jar in missing))
        what = f"{len(missing)} of {len(jars)} are not in {folder}"
        user = "start" if which == "spark" else "`dlx kafka` or `dlx demo`"
        return Finding(
            "warn", name, what, f"the first {user} downloads them: {size}, with a network"
        )
    return Finding("ok", name, f"{len(jars)} in {folder}")


def _missing(which: JarSet) -> list[Jar]:
    folder = user_cache_folder() / "jars"
    return [jar for jar in read_lock(lock_file(which)) if not _has_size(jar, folder)]


def _cache() -> Iterator[Finding]:
    folder = user_cache_folder()
    if not os.access(existing(folder), os.W_OK) and not _missing("spark"):
        yield Finding("ok", "cache", f"{folder}, read-only, has all that a job needs")
        return
    yield from check_folder("cache", folder, "set XDG_CACHE_HOME to another folder")


def _has_size(jar: Jar, folder: Path) -> bool:
    """Whether a jar is there, by its size; a start compares the sha256."""
    try:
        return (folder / jar.path).stat().st_size == jar.size_bytes
    except OSError:
        return False


def _loopback() -> Finding:
    from streaming.embedded.kafka.ports import LOOPBACK, free_port

    try:
        free_port()
    except EmbeddedError as error:
        return Finding("fail", "ports", str(error), "let programs listen on 127.0.0.1")
    return Finding("ok", "ports", f"programs can listen on {LOOPBACK}")
