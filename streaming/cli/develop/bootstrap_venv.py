"""Create or update `.venv` from the requirements locks.

The `dlx` wrapper runs this script when the environment is missing or out of date, and a command for
developers when its tools are. It may run on the machine's own Python before anything is installed,
so it imports the standard library alone.

    python -I bootstrap_venv.py ROOT LOCK...

    requirements.lock       what dlx needs to run
    requirements-dev.lock   what `dlx test`, `bench` and `docs` add

`.venv` keeps a copy of each lock that it was made from. The copies are invalidated before and
written after an installation, so the next command repeats an interrupted one. Development tools
stay installed until `.venv` is deleted. Processes started together wait for one of them on a file
lock, which the system releases even if that process is killed.
"""

import fcntl
import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

RUNTIME_LOCK = "requirements.lock"
DEV_LOCK = "requirements-dev.lock"
BUILD_CONSTRAINTS_NAME = "build-constraints.txt"
PATH_FILE_NAME = "dlx-checkout.pth"


class BootstrapError(Exception):
    """The environment cannot be made; the text says why and what to do."""


def ensure_environment(root: Path, locks: Sequence[str] = (RUNTIME_LOCK,)) -> None:
    """Bring `root/.venv` up to date with the given locks of `root`.

    Raises:
        BootstrapError: the checkout has no such lock.
        subprocess.CalledProcessError: pip or uv failed, and has written the reason to stderr.
    """
    for lock in locks:
        if not (root / lock).is_file():
            message = f"{root / lock} does not exist; run this command in a complete checkout"
            raise BootstrapError(message)
    with (root / RUNTIME_LOCK).open("r+b") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another dlx process that is updating .venv")
            fcntl.flock(held, fcntl.LOCK_EX)
        if not is_current(root, locks):
            make_environment(root, locks)


def is_current(root: Path, locks: Sequence[str]) -> bool:
    """Whether `.venv` works and holds everything these locks name."""
    return runs(venv_python(root)) and all(is_installed(root, lock) for lock in locks)


def is_installed(root: Path, lock: str) -> bool:
    """Whether a lock, as it is now, was installed completely."""
    return record_of(root, lock).is_file() and filecmp.cmp(
        root / lock, record_of(root, lock), shallow=False
    )


def record_of(root: Path, lock: str) -> Path:
    """The copy of a lock that `.venv` was made from; empty while an installation runs."""
    return root / ".venv" / lock


def make_environment(root: Path, locks: Sequence[str]) -> None:
    """Create or repair `.venv` and install these locks; development tools in it are kept."""
    wanted = list(locks)
    if DEV_LOCK not in wanted and (root / ".venv" / "bin" / "pytest").exists():
        wanted.append(DEV_LOCK)
    if not runs(venv_python(root)):
        say("first use: creating .venv from requirements.lock (1.2 GB, takes a minute or more)")
        run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(root / ".venv")])
    stale = [lock for lock in wanted if not is_installed(root, lock)]
    for lock in stale:
        record_of(root, lock).write_bytes(b"")
    say(f"installing {' and '.join(stale)} into .venv")
    if not (root / ".venv" / "bin" / "uv").exists():
        install_uv(root)
    sync(root, wanted)
    link_checkout(root)
    for lock in stale:
        new = record_of(root, lock).with_suffix(".new")
        shutil.copyfile(root / lock, new)
        new.replace(record_of(root, lock))


def install_uv(root: Path) -> None:
    """Install uv, as the lock pins it, with the machine's pip or else with ensurepip's."""
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / RUNTIME_LOCK
        pins.write_text(lock_entry((root / RUNTIME_LOCK).read_text("utf-8"), "uv"), "utf-8")
        if find_spec("pip"):
            pip = [sys.executable, "-m", "pip", "--python", str(venv_python(root))]
        else:
            run([str(venv_python(root)), "-I", "-m", "ensurepip"])
            pip = [str(venv_python(root)), "-m", "pip"]
        quiet = ["--quiet", "--disable-pip-version-check"]
        run([*pip, *quiet, "install", "--require-hashes", "--no-deps", "-r", str(pins)])


def sync(root: Path, locks: Sequence[str]) -> None:
    """Install exactly what the locks name, checked against their hashes, and remove the rest.

    Packages that are built from source are built with pinned tools.
    """
    uv = str(root / ".venv" / "bin" / "uv")
    target = ["--python", str(venv_python(root))]
    pins = ["--build-constraints", str(root / BUILD_CONSTRAINTS_NAME), "--require-hashes"]
    run([uv, "pip", "sync", *target, *pins, *(str(root / lock) for lock in locks)], uv_settings())


def uv_settings() -> dict[str, str]:
    """The environment variables for uv; it uses pip's package index unless it has its own."""
    settings = {"UV_HTTP_TIMEOUT": "300", **os.environ}
    if not settings.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}:
        index = settings.get("PIP_INDEX_URL") or pip_setting("global.index-url")
        if index:
            settings["UV_DEFAULT_INDEX"] = index
    return settings


def pip_setting(name: str) -> str:
    """A value from pip's configuration files, or the empty string."""
    result = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", name],
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout.strip() if result.returncode == 0 else ""


def link_checkout(root: Path) -> None:
    """Make the checkout importable, also for Spark's Python workers.

    The path is relative to site-packages, so the checkout can be moved.
    """
    (packages,) = (root / ".venv" / "lib").glob("python3.*/site-packages")
    (packages / PATH_FILE_NAME).write_text(os.path.relpath(root, packages) + "\n", "utf-8")


def lock_entry(lock: str, package: str) -> str:
    """The lines of a lock that pin one package, hashes included."""
    found = re.search(rf"^{re.escape(package)}==.*\n(?:[ \t].*\n)*", lock, re.MULTILINE)
    if found is None:
        message = f"{RUNTIME_LOCK} does not pin {package}"
        raise BootstrapError(message)
    return found.group()


def venv_python(root: Path) -> Path:
    """The environment's interpreter."""
    return root / ".venv" / "bin" / "python"


def runs(python: Path) -> bool:
    """Whether an interpreter exists and starts; the one it links to may have been removed."""
    check = [str(python), "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(check, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(command: list[str], settings: dict[str, str] | None = None) -> None:
    """Run a tool with its output on stderr; stdout belongs to the dlx command."""
    subprocess.run(command, check=True, stdout=sys.stderr, env=settings)


def say(line: str) -> None:
    """Report progress on stderr."""
    print(f"dlx: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        ensure_environment(Path(sys.argv[1]), sys.argv[2:] or (RUNTIME_LOCK,))
    except BootstrapError as error:
        say(str(error))
        sys.exit(2)
    except subprocess.CalledProcessError as failure:
        say(f"creating .venv failed: {failure}")
        sys.exit(failure.returncode)
    except OSError as failure:  # a checkout of another user, a full disk
        say(f"creating .venv failed: {failure.filename or ''}: {failure.strerror}")
        sys.exit(2)
