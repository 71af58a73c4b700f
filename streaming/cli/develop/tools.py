"""The developers' tools: a command that needs them installs them, after its options are read."""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import streaming.cli.develop.bootstrap_venv as bootstrap

LOCKS = (bootstrap.RUNTIME_LOCK, bootstrap.DEV_LOCK)


def with_tools(command: Callable[..., int], root: Path) -> Callable[..., int]:
    """Let a command install what it needs before it runs.

    Args:
        root: the checkout, or the folder that the packages are installed in.
    """

    @functools.wraps(command)
    def run(*arguments: object, **options: object) -> int:
        ensure_tools(root)
        return command(*arguments, **options)

    return run


def ensure_tools(root: Path) -> None:
    """Add requirements-dev.lock to the environment of a checkout, unless it is there.

    Raises:
        SystemExit: it could not be installed; stderr says why.
    """
    if Path(sys.prefix) != root / ".venv":  # an installed package, or an environment of one's own
        return
    if all((root / one).is_file() and bootstrap.is_installed(root, one) for one in LOCKS):
        return
    command = (sys.executable, "-I", bootstrap.__file__, str(root), *LOCKS)
    status = subprocess.run(command, check=False).returncode
    if status:
        sys.exit(status)
