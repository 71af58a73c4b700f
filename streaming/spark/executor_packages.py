"""Our packages for the executors of a cluster, as archives that Spark unpacks beside each of them.

    dlx.zip            `streaming` and `topology`
    environment.zip    the packages that tasks import, if executors do not have them

An executor's working directory then holds the folders `dlx` and `environment`, which are on
PYTHONPATH before anything that is installed there. Libraries of C cannot be imported from a zip
file, and `--py-files` would not unpack them.

Spark has one name for the Python of executors and for the one that it starts on the driver's
machine when a stateful query begins. It is `PYTHON`, a command in dlx.zip that starts the one or
the other. Its path is relative to the folder of the unpacked archives. Executors run there; on the
driver's machine, Spark starts Python there because of `STARTS_THERE`.
"""

import hashlib
import marshal
import os
import re
import shlex
import struct
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.machinery import SourceFileLoader
from importlib.metadata import Distribution
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from typing import Final

from streaming.embedded.errors import EmbeddedError
from streaming.spark.executor_facts import EXTRAS, ROOT, SPARK_BRINGS, TASK_PACKAGES, facts_here
from streaming.user_folders import user_cache_folder

CODE: Final = "dlx"
ENVIRONMENT: Final = "environment"
PACKAGES: Final = ("streaming", "topology")

PYTHON: Final = f"{CODE}/python"
"""The command that Spark starts as Python."""

STARTS_THERE: Final = {"SPARK_JOB_ARTIFACT_UUID": "."}
"""Spark's variable for a subfolder of the archives' folder in which it starts Python."""

DRIVER_PYTHON: Final = "DLX_DRIVER_PYTHON"
DRIVER_PATH: Final = "DLX_DRIVER_PYTHONPATH"
"""The environment variables with the driver's Python and PYTHONPATH; executors have none."""

_START_PYTHON: Final = f"""\
#!/bin/sh
python={{python}}
if [ -n "${DRIVER_PYTHON}" ]; then
    PYTHONPATH=${DRIVER_PATH} exec "${DRIVER_PYTHON}" "$@"
fi
command -v "$python" >/dev/null || {{{{ echo "dlx: no executor Python: $python" >&2; exit 127; }}}}
exec "$python" "$@"
"""
_EXECUTABLE: Final = 0o100755 << 16
_UNCHECKED: Final = 1
"""The flag of bytecode that is valid whatever the date of its source."""


def python_path(*, with_environment: bool) -> str:
    """The PYTHONPATH of an executor's workers, relative to its working directory."""
    return os.pathsep.join((CODE, ENVIRONMENT) if with_environment else (CODE,))


def write_code(path: Path, python: str) -> Path:
    """Write the archive of our own packages and of `PYTHON`; return its path.

    Args:
        python: the Python of the executors, a path or a name there.
    """
    start = zipfile.ZipInfo(Path(PYTHON).name)
    start.external_attr = _EXECUTABLE
    text = _START_PYTHON.format(python=shlex.quote(python))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(start, text)
        _add_files(archive, _code())
    return path


def _add_files(archive: zipfile.ZipFile, files: Iterable[tuple[str, Path]]) -> None:
    """Add files, and the bytecode of modules that this process has loaded, in a form without dates.

    Otherwise each executor would compile them anew.
    """
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    loaded = {spec.origin: spec for spec in specs if spec is not None}
    for name, file in files:
        archive.write(file, name)
        spec = loaded.get(str(file))
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            code = marshal.dumps(spec.loader.get_code(spec.name))
            header = struct.pack("<4sI", MAGIC_NUMBER, _UNCHECKED) + source_hash(file.read_bytes())
            archive.writestr(cache_from_source(name), header + code)


def _code() -> Iterator[tuple[str, Path]]:
    """Yield name in the archive -> file: the sources."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(ROOT).as_posix(), file


def environment_archive(cache_dir: Path | None = None) -> Path:
    """The archive of the packages that tasks import, as installed here; written once.

    Raises:
        EmbeddedError: a package is not installed here, or the archive cannot be written.
    """
    found = distributions(TASK_PACKAGES)
    names = [f"{name}=={each.version}" for name, each in sorted(found.items())]
    kind = (os.uname().machine, str(sys.implementation.cache_tag), "with bytecode")
    mark = hashlib.sha256("\n".join((*kind, *names)).encode()).hexdigest()[:16]
    folder = (cache_dir or user_cache_folder()).absolute() / "executors"
    path = folder / f"{ENVIRONMENT}-{mark}.zip"
    if path.exists():
        return path
    facts_here()  # imports what tasks do
    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for each in found.values():
                _add_files(archive, _files(each))
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
    """Yield name -> file of an installed distribution, without what no task imports."""
    for name in each.files or ():
        if {"..", "__pycache__", "tests", "include"} & set(name.parts):
            continue
        file = Path(str(each.locate_file(name)))
        if file.is_file():
            yield name.as_posix(), file
