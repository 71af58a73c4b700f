"""Build the compiled core: mypyc and a C compiler, in a folder of their own."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from streaming.compiled import PACKAGES, ROOT, SOURCES, modules, sources, sources_digest
from topology.errors import DlxError

_SETUP = """\
from setuptools import setup
from mypyc.build import mypycify

setup(name="dlx-core", packages=[], ext_modules=mypycify({modules!r}, opt_level="3"))
"""
_MYPY = """\
[mypy]
explicit_package_bases = True
namespace_packages = True
"""
_LAST_LINES = 15


class BuildError(DlxError):
    """mypyc or the C compiler failed; the text ends with what they said."""


def build(folder: Path) -> None:
    """Make a build in `folder`, whole or not at all; a build that is there is replaced.

    Raises:
        BuildError: there is no C compiler, or compiling failed.
    """
    if shutil.which("cc") is None and shutil.which("gcc") is None and shutil.which("clang") is None:
        message = "no C compiler (cc, gcc or clang) is on PATH; the plain Python works without one"
        raise BuildError(message)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder.parent) as scratch:
        work = Path(scratch) / "work"
        for path in sources():
            copy = work / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        (work / PACKAGES[0] / "__init__.py").touch()
        (work / "mypy.ini").write_text(_MYPY, "utf-8")
        files = [f"streaming/broker/{module.replace('.', '/')}.py" for module in modules()]
        (work / "setup.py").write_text(_SETUP.format(modules=files), "utf-8")
        _compile(work)
        made = Path(scratch) / "made"
        for library in sorted(work.glob("*.so")) + sorted(work.glob("streaming/**/*.so")):
            target = made / library.relative_to(work)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(library, target)
        _check_complete(made, files)
        (made / SOURCES).write_text(sources_digest(), "utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)


def _check_complete(made: Path, files: list[str]) -> None:
    """Refuse a build without a library for each module: the plain module would run unnoticed."""
    missing = [
        file for file in files if not list((made / file).parent.glob(f"{Path(file).stem}.*.so"))
    ]
    if missing:
        message = f"compiling the core made no library of {', '.join(missing)}"
        raise BuildError(message)


def _compile(work: Path) -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        said = "\n".join(done.stdout.splitlines()[-_LAST_LINES:])
        message = f"compiling the core failed:\n{said}"
        raise BuildError(message)
