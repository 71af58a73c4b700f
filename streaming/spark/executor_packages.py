"""Our packages for the executors of a cluster, as archives that Spark unpacks beside each of them.

    dlx.zip            `streaming` and `topology`; the compiled core too, if the driver uses it
    environment.zip    the packages that tasks import, if executors do not have them

An executor's working directory then holds the folders `dlx` and `environment`, which are on
PYTHONPATH before anything that is installed there. Libraries of C cannot be imported from a zip
file, and `--py-files` would not unpack them.
"""

import hashlib
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from importlib import import_module, metadata
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final

from streaming.compiled import in_use
from streaming.embedded.errors import EmbeddedError
from streaming.spark.executor_facts import EXTRAS, ROOT, TASK_PACKAGES
from streaming.user_folders import user_cache_folder

CODE: Final = "dlx"
ENVIRONMENT: Final = "environment"
PACKAGES: Final = ("streaming", "topology")

SPARK_BRINGS: Final = frozenset({"pyspark", "py4j"})
"""Every Spark installation has them, with 400 MB of jars."""


def python_path(*, with_environment: bool) -> str:
    """The PYTHONPATH of an executor's workers, relative to its working directory."""
    return os.pathsep.join((CODE, ENVIRONMENT) if with_environment else (CODE,))


def write_code(path: Path) -> Path:
    """Write the archive of our own packages; return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, file in _code():
            archive.write(file, name)
    return path


def _code() -> Iterator[tuple[str, Path]]:
    """Yield name in the archive -> file: the sources, and compiled modules beside them."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(ROOT).as_posix(), file
    if in_use():
        build = _build_in_use()
        for file in sorted(build.rglob("*.so")):
            yield file.relative_to(build).as_posix(), file


def _build_in_use() -> Path:
    """The folder of the compiled build that this process runs."""
    file = Path(str(import_module("streaming.broker.shard").__file__))
    return file.parents[2]


def environment_archive(cache_dir: Path | None = None) -> Path:
    """The archive of the packages that tasks import, as installed here; written once.

    Raises:
        EmbeddedError: a package is not installed here, or the archive cannot be written.
    """
    found = distributions(TASK_PACKAGES)
    names = "\n".join(f"{name}=={each.version}" for name, each in sorted(found.items()))
    mark = hashlib.sha256(f"{os.uname().machine}\n{names}".encode()).hexdigest()[:16]
    folder = (cache_dir or user_cache_folder()).absolute() / "executors"
    path = folder / f"{ENVIRONMENT}-{mark}.zip"
    if path.exists():
        return path
    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for each in found.values():
                for name, file in _files(each):
                    archive.write(file, name)
        unfinished.replace(path)
    except OSError as failure:
        unfinished.unlink(missing_ok=True)
        raise EmbeddedError(
            f"{path} cannot be written: {failure.strerror}. Free some space or give write access, "
            "or set XDG_CACHE_HOME to another folder."
        ) from failure
    return path


def distributions(names: Iterable[str]) -> dict[str, Distribution]:
    """The installed distributions that some packages need, themselves included.

    Raises:
        EmbeddedError: one of them is not installed.
    """
    found: dict[str, Distribution] = {}
    for name in names:
        if name not in SPARK_BRINGS and not _add(name, found) and name not in EXTRAS:
            raise EmbeddedError(
                f"the package {name} is not installed here, so it cannot be sent to executors. "
                'Install dlx-stream[job], or set job.executor_packages = "installed".'
            )
    return found


def _add(name: str, found: dict[str, Distribution]) -> bool:
    """Add a distribution and what it needs here; return whether it is installed."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found:
        return True
    try:
        found[key] = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    for text in found[key].requires or ():
        requirement, _, marker = text.partition(";")
        needed = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
        if needed is not None and "extra" not in marker:
            _add(needed[0], found)  # another platform's is not installed
    return True


def _files(each: Distribution) -> Iterator[tuple[str, Path]]:
    """Yield name -> file of an installed distribution, without its commands and caches."""
    for name in each.files or ():
        if ".." in name.parts or "__pycache__" in name.parts:
            continue
        file = Path(str(each.locate_file(name)))
        if file.is_file():
            yield name.as_posix(), file
