"""What an executor has: its Python, the packages that tasks import, and our own code.

The first task on an executor collects these facts, and the driver compares them with its own. Only
the standard library is imported here, so that it also works where packages are missing.
"""

import hashlib
import os
import socket
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

TASK_PACKAGES: Final = (
    "attrs",
    "cattrs",
    "confluent-kafka",
    "deltalake",
    "fsspec",
    "google-re2",
    "hdfs-native",
    "msgspec",
    "numpy",
    "obstore",
    "pandas",
    "platformdirs",
    "protobuf",
    "pyarrow",
    "pyspark",
)
"""The distributions that tasks import; a test compares them with what a worker loads."""

EXTRAS: Final = ("hdfs-native",)
"""Those of them that only some storage needs."""

ROOT: Final = Path(__file__).resolve().parents[2]
"""The folder of the packages `streaming` and `topology`."""

MISSING: Final = "missing"


class Facts(NamedTuple):
    """What decides whether a task does here what it would do elsewhere.

    Attributes:
        python: version, such as 3.11.9.
        code: digest of our sources.
        is_compiled: whether the broker's core is a compiled one.
        packages: distribution -> version, or MISSING.
    """

    python: str
    code: str
    is_compiled: bool
    packages: dict[str, str]

    def differences(self, here: "Facts") -> list[str]:
        """Return how `here` differs from these facts, those of the driver; one text per item."""
        found = []
        if self.python.split(".")[:2] != here.python.split(".")[:2]:
            found.append(f"Python is {here.python}, and the driver's is {self.python}")
        if self.code != here.code:
            found.append(f"the code of dlx is {here.code}, and the driver's is {self.code}")
        if self.is_compiled != here.is_compiled:
            kind = {True: "compiled", False: "not compiled"}
            found.append(
                f"the core is {kind[here.is_compiled]}, and the driver's is "
                f"{kind[self.is_compiled]}"
            )
        for name, version in self.packages.items():
            other = here.packages.get(name, MISSING)
            if other != version != MISSING:  # tasks need no extra that the driver has not
                found.append(f"{name} is {other}, and the driver's is {version}")
        return found


class Executor(NamedTuple):
    """An executor, and what it has."""

    name: str
    facts: Facts

    def words(self) -> str:
        """Return one line for the log."""
        kind = "compiled" if self.facts.is_compiled else "plain"
        packages = ", ".join(
            f"{name} {version}"
            for name, version in self.facts.packages.items()
            if name in {"pyspark", "pyarrow", "msgspec", "deltalake", "confluent-kafka"}
        )
        return f"{self.name}: Python {self.facts.python}, {kind} core, {packages}"


class ExecutorMismatchError(Exception):
    """An executor has another Python, other packages or other code than the driver."""


@cache
def facts_here() -> Facts:
    """Collect the facts of this process; it takes 50 ms the first time."""
    return Facts(
        python=".".join(map(str, sys.version_info[:3])),
        code=_digest(ROOT),
        is_compiled=_is_compiled(),
        packages={name: _version(name) for name in TASK_PACKAGES},
    )


def probe(_rows: Any) -> Any:
    """Return what the executor of this task has: one `Executor`, as plain tuples."""
    yield executor_name(), tuple(facts_here())


def executor_name() -> str:
    """The name of this executor in messages: its number in Spark, and its host."""
    number = os.environ.get("SPARK_EXECUTOR_ID", "")
    folder = Path.cwd().name  # of a standalone executor: its number
    return f"executor {number or folder} on {socket.gethostname()}"


_checked: set[str] = set()
"""The driver's code that this worker process has been compared with."""


def check_here(wanted: Facts | None) -> None:
    """Compare this worker with the driver, once per process; None: they are one process.

    Raises:
        ExecutorMismatchError: they differ; the text says in what.
    """
    if wanted is None or wanted.code in _checked:
        return
    differences = wanted.differences(facts_here())
    if differences:
        raise ExecutorMismatchError(mismatch([(executor_name(), differences)]))
    _checked.add(wanted.code)


def mismatch(executors: list[tuple[str, list[str]]]) -> str:
    """Return the refusal of executors that differ from the driver, with the remedy."""
    lines = [f"{name}: {'; '.join(differences)}" for name, differences in executors]
    return (
        "executors differ from the driver, so the same records could have another outcome:\n"
        + "".join(f"  {line}\n" for line in lines)
        + 'Install the driver\'s versions there, or set job.executor_packages = "shipped" to send '
        "the driver's packages along. job.executor_python names the Python of the executors."
    )


def _digest(root: Path) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for package in ("streaming", "topology"):
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_compiled() -> bool:
    try:
        from streaming.compiled import in_use  # noqa: PLC0415 - packages may be missing

        return in_use()
    except ImportError:
        return False


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return MISSING
