"""What an executor has: its Python, the packages that tasks import, and our own code.

The first task on an executor collects these facts, and the driver compares them with its own. A
package counts as tasks import it, wherever from: Spark's own distribution has pyspark as a zip file
that no installer knows of. Only the standard library is imported here, so that it also works where
packages are missing.
"""

import hashlib
import os
import socket
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

TASK_MODULES: Final = {
    "attrs": "attr",
    "confluent-kafka": "confluent_kafka",
    "deltalake": "deltalake",
    "fsspec": "fsspec",
    "google-re2": "re2",
    "hdfs-native": "hdfs_native",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "obstore": "obstore",
    "pandas": "pandas",
    "platformdirs": "platformdirs",
    "protobuf": "google.protobuf",
    "pyarrow": "pyarrow",
    "pyspark": "pyspark",
}
"""The distributions that tasks import -> a module of each; a test compares them with what a worker
loads."""

TASK_PACKAGES: Final = tuple(TASK_MODULES)

SPARK_BRINGS: Final = frozenset({"pyspark", "py4j"})
"""Every Spark installation has them, with 400 MB of jars."""

EXTRAS: Final = ("hdfs-native",)
"""Those of them that only some storage needs."""

ROOT: Final = Path(__file__).resolve().parents[2]
"""The folder of the packages `streaming` and `topology`."""

MISSING: Final = "missing"
DLX: Final = "dlx"


class Facts(NamedTuple):
    """What decides whether a task does here what it would do elsewhere.

    Attributes:
        python: version, such as 3.11.9.
        code: digest of our sources.
        packages: distribution -> version, or MISSING.
        places: distribution -> the folder or zip file that it is imported from; also
            of DLX, and of Python itself.
        ships_packages: whether the driver sends the packages along.
    """

    python: str
    code: str
    packages: dict[str, str]
    places: dict[str, str]
    ships_packages: bool = False

    def differences(self, here: "Facts") -> list[str]:
        """Return how `here` differs from these facts, those of the driver; one text per item."""
        items = [("Python", here.python, self.python)] if self._wants_python(here) else []
        if self.code != here.code:
            items.append((DLX, here.code, self.code))
        items += [
            (name, here.packages.get(name, MISSING), self.packages[name])
            for name in self._other_packages(here)
        ]
        return [
            f"{name} is {there}"
            + (f" (in {here.places[name]})" if name in here.places else "")
            + f", and the driver's is {own}"
            for name, there, own in items
        ]

    def remedies(self, here: "Facts") -> list[str]:
        """Return what to do about the differences, in whole sentences."""
        found = []
        if self._wants_python(here):
            version = ".".join(_minor(self.python))
            found.append(f"Name a Python {version} of the executors in job.executor_python.")
        if self.code != here.code:
            found.append(
                "The driver sends dlx itself, and another copy precedes it: remove that from the "
                "executors' PYTHONPATH."
            )
        others = set(self._other_packages(here))
        kinds = (others & SPARK_BRINGS, others - SPARK_BRINGS)
        return [*found, *(self.remedy_of_packages(names) for names in kinds if names)]

    def remedy_of_packages(self, names: set[str]) -> str:
        """Return what to do about distributions that differ or are missing: Spark's, or others."""
        if names & SPARK_BRINGS:
            return (
                f"Spark brings pyspark: run workers with Spark {self.packages['pyspark']} "
                "(SPARK_HOME), and leave no other pyspark on the executors' PYTHONPATH."
            )
        if not self.ships_packages:
            return (
                "Install the driver's versions for the executors' Python, or set "
                'job.executor_packages = "shipped" to send them along.'
            )
        return (
            "The driver sends its packages. If another copy precedes one, remove that from the "
            "executors' PYTHONPATH; if one cannot be imported, executors need the driver's "
            'operating system and processor, or job.executor_packages = "installed".'
        )

    def _wants_python(self, here: "Facts") -> bool:
        return _minor(self.python) != _minor(here.python)

    def _other_packages(self, here: "Facts") -> list[str]:
        """The distributions whose version differs; tasks need no extra that the driver has not."""
        return [
            name
            for name, version in self.packages.items()
            if here.packages.get(name, MISSING) != version != MISSING
        ]


class Executor(NamedTuple):
    """An executor, and what it has."""

    name: str
    facts: Facts

    def words(self) -> str:
        """Return one line for the log."""
        packages = ", ".join(
            f"{name} {version}"
            for name, version in self.facts.packages.items()
            if name in {"pyspark", "pyarrow", "msgspec", "deltalake", "confluent-kafka"}
        )
        return f"{self.name}: Python {self.facts.python}, {packages}"


class ExecutorMismatchError(Exception):
    """An executor has another Python, other packages or other code than the driver."""


@cache
def facts_here() -> Facts:
    """Collect the facts of this process; it imports what tasks do."""
    found = {name: _found(name, module) for name, module in TASK_MODULES.items()}
    places = {name: place for name, (_version, place) in found.items() if place}
    return Facts(
        python=".".join(map(str, sys.version_info[:3])),
        code=_digest(ROOT),
        packages={name: version for name, (version, _place) in found.items()},
        places={**places, DLX: str(ROOT), "Python": sys.executable},
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
    refusal = mismatch(wanted, [Executor(executor_name(), facts_here())])
    if refusal is not None:
        raise ExecutorMismatchError(refusal)
    _checked.add(wanted.code)


def mismatch(wanted: Facts, executors: Iterable[Executor]) -> str | None:
    """Return the refusal of executors that differ from the driver, with the remedy, if any does."""
    differing = [
        (each, differences) for each in executors if (differences := wanted.differences(each.facts))
    ]
    if not differing:
        return None
    remedies = dict.fromkeys(
        remedy for each, _ in differing for remedy in wanted.remedies(each.facts)
    )
    return (
        "executors differ from the driver, so the same records could have another outcome:\n"
        + "".join(f"  {name}: {'; '.join(found)}\n" for (name, _facts), found in differing)
        + " ".join(remedies)
    )


def _minor(python: str) -> list[str]:
    return python.split(".")[:2]


def _digest(root: Path) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for package in ("streaming", "topology"):
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _found(name: str, module: str) -> tuple[str, str]:
    """Return version and place of a distribution as this process imports it."""
    try:
        imported = import_module(module)
    except ModuleNotFoundError as failure:
        if failure.name is not None and module.startswith(failure.name):
            return MISSING, ""
        return f"broken ({failure})", ""
    except Exception as failure:  # noqa: BLE001 - whatever stops an import
        return f"broken ({failure})", ""
    place = _place(imported, module)
    beside = next(iter(metadata.distributions(name=name, path=[place])), None)
    if beside is not None:
        return beside.version, place
    return str(getattr(imported, "__version__", "of an unknown version")), place


def _place(imported: Any, module: str) -> str:
    """The entry of `sys.path` that a module was imported from."""
    path = Path(imported.__file__)
    return str(path.parents[module.count(".") + hasattr(imported, "__path__")])
