"""Make `.venv` from requirements.lock.

The `dlx` wrapper runs this when there is no environment, or an old one. It runs with the machine's
own Python before anything is installed, hence the standard library alone.

    python -I environment.py ROOT

The environment is current when it holds a copy of the lock it was made from; that copy is written
last and removed first, so an interrupted run is simply repeated. Processes started together wait
for one of them by a file lock, which the system frees even if that one is killed.
"""

import fcntl
import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

LOCK_NAME = "requirements.lock"
BUILD_CONSTRAINTS_NAME = "build-constraints.txt"
PATH_FILE_NAME = "dlx-checkout.pth"


def ensure_environment(root: Path) -> None:
    """Bring `root/.venv` up to date with `root/requirements.lock`, unless it is.

    Raises:
        subprocess.CalledProcessError: pip or uv failed; it has said why on stderr.
    """
    with (root / LOCK_NAME).open("r+b") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another dlx that is making .venv")
            fcntl.flock(held, fcntl.LOCK_EX)
        if not is_current(root):
            make_environment(root)


def is_current(root: Path) -> bool:
    """Whether `.venv` was made, completely, from the lock as it is now."""
    made_from = root / ".venv" / LOCK_NAME
    return (
        venv_python(root).exists()
        and made_from.is_file()
        and filecmp.cmp(root / LOCK_NAME, made_from, shallow=False)
    )


def make_environment(root: Path) -> None:
    """Create or repair the environment, install exactly what the lock names, and record that."""
    made_from = root / ".venv" / LOCK_NAME
    made_from.unlink(missing_ok=True)
    if not runs(venv_python(root)):
        say("first use: making .venv from requirements.lock (about 1.3 GB; some minutes)")
        run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(root / ".venv")])
    else:
        say("requirements.lock has changed: updating .venv")
    if not (root / ".venv" / "bin" / "uv").exists():
        install_uv(root)
    sync(root)
    link_checkout(root)
    new = made_from.with_suffix(".new")
    shutil.copyfile(root / LOCK_NAME, new)
    new.replace(made_from)


def install_uv(root: Path) -> None:
    """Install uv, as the lock pins it, with pip: the machine's, or else the one Python carries."""
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / LOCK_NAME
        pins.write_text(lock_entry((root / LOCK_NAME).read_text("utf-8"), "uv"), "utf-8")
        if find_spec("pip"):
            pip = [sys.executable, "-m", "pip", "--python", str(venv_python(root))]
        else:
            run([str(venv_python(root)), "-I", "-m", "ensurepip"])
            pip = [str(venv_python(root)), "-m", "pip"]
        quiet = ["--quiet", "--disable-pip-version-check"]
        run([*pip, *quiet, "install", "--require-hashes", "--no-deps", "-r", str(pins)])


def sync(root: Path) -> None:
    """Make the environment hold what the lock names, with those hashes, and nothing else.

    What is built from source is built with tools that are pinned too.
    """
    uv = str(root / ".venv" / "bin" / "uv")
    target = ["--python", str(venv_python(root))]
    pins = ["--build-constraints", str(root / BUILD_CONSTRAINTS_NAME), "--require-hashes"]
    run([uv, "pip", "sync", *target, *pins, str(root / LOCK_NAME)], uv_settings())


def uv_settings() -> dict[str, str]:
    """The process environment for uv, which should find packages where pip finds them."""
    settings = {"UV_HTTP_TIMEOUT": "300", **os.environ}
    if not settings.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}:
        index = settings.get("PIP_INDEX_URL") or pip_setting("global.index-url")
        if index:
            settings["UV_DEFAULT_INDEX"] = index
    return settings


def pip_setting(name: str) -> str:
    """A value from pip's configuration files, or the empty string."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", name],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() if asked.returncode == 0 else ""


def link_checkout(root: Path) -> None:
    """Make the checkout importable, for Spark's Python workers too.

    The path is relative to the folder it stands in, so the checkout can be moved.
    """
    (packages,) = (root / ".venv" / "lib").glob("python3.*/site-packages")
    (packages / PATH_FILE_NAME).write_text(os.path.relpath(root, packages) + "\n", "utf-8")


def lock_entry(lock: str, package: str) -> str:
    """The lines of a requirements lock that pin one package, hashes included."""
    found = re.search(rf"^{re.escape(package)}==.*\n(?:[ \t].*\n)*", lock, re.MULTILINE)
    if found is None:
        message = f"{LOCK_NAME} does not pin {package}"
        raise ValueError(message)
    return found.group()


def venv_python(root: Path) -> Path:
    """The environment's interpreter."""
    return root / ".venv" / "bin" / "python"


def runs(python: Path) -> bool:
    """Whether an interpreter exists and works: the one it links to may be gone."""
    check = [str(python), "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(check, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(command: list[str], settings: dict[str, str] | None = None) -> None:
    """Run a tool; all it says goes to stderr, since stdout belongs to the dlx command."""
    subprocess.run(command, check=True, stdout=sys.stderr, env=settings)


def say(line: str) -> None:
    """Tell the user what takes so long."""
    print(f"dlx: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        ensure_environment(Path(sys.argv[1]))
    except subprocess.CalledProcessError as failure:
        say(f"making .venv failed: {failure}")
        sys.exit(failure.returncode)
    except OSError as failure:  # a checkout of somebody else, a full disk
        say(f"making .venv failed: {failure.filename or ''}: {failure.strerror}")
        sys.exit(2)
