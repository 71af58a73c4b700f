"""A whole cluster on this machine, to try and to test: a Spark master, workers, an object store.

    DIRECTORY/spark      the folders of the workers
    DIRECTORY/store      the objects, if they are kept: tables are in DIRECTORY/store/dlx/tables
    DIRECTORY/AWS_...    the secrets of the store, for the job's configuration

It ends with this process, however this process ends.
"""

import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol, Self

import attrs

import streaming
import topology
from streaming.config import JobConfig
from streaming.config.flow import Absolute, FlowSettings
from streaming.config.secrets import Property, Secret, is_secret_name
from streaming.embedded.errors import EmbeddedError
from streaming.embedded.kafka.ports import LOOPBACK
from streaming.embedded.object_store_server import ObjectStoreServer
from streaming.embedded.spark_cluster import SparkCluster

WORKERS: Final = 2
BUCKET: Final = "dlx"
MEMORY: Final = Absolute(512_000_000)
"""The high mark of resident messages: the driver's memory says nothing about it."""

PROPERTIES: Final[dict[str, str]] = {
    "spark.executor.memory": "768m",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
}
"""Spark's properties of a job on a `SparkCluster`."""

_EMPTY: Final = (
    'while [ "$1" != -- ]; do mount -t tmpfs none "$1" || exit 1; shift; done; shift; exec "$@"'
)


def can_isolate() -> bool:
    """Whether this user may make mount namespaces, which takes root on Linux."""
    if shutil.which("unshare") is None:
        return False
    tried = ("unshare", "--mount", "--propagation", "private", "true")
    tried_by = subprocess.run(tried, capture_output=True, check=False)  # noqa: S603 - fixed words
    return tried_by.returncode == 0


def with_empty(folders: Sequence[Path]) -> tuple[str, ...]:
    """The start of a command that runs where our code and these folders are empty.

    Raises:
        EmbeddedError: this user cannot make mount namespaces.
    """
    if not can_isolate():
        raise EmbeddedError(
            "workers need mount namespaces of their own, which only root can make: run as root on "
            "Linux, with `unshare` installed"
        )
    code = [Path(package.__path__[0]) for package in (streaming, topology)]
    namespace = ("unshare", "--mount", "--propagation", "private")
    return (*namespace, "sh", "-c", _EMPTY, "sh", *map(str, [*code, *folders]), "--")


class S3Server(Protocol):
    """A running server of the S3 protocol."""

    @property
    def endpoint(self) -> str:
        """Its address, `http://HOST:PORT`."""

    @property
    def options(self) -> dict[str, str]:
        """The storage options of tables on it."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def make_bucket(self, name: str) -> None:
        """Create a bucket, unless it exists."""


class LocalCluster:
    """Two workers and a store for checkpoint and tables; a context manager.

    Args:
        directory: folder of its files.
        hidden: folders that are empty for workers, as our code is, so that they share no disk with
            the driver; this takes root. None: workers see everything.
        log_dir: folder of the logs; by default that of `SparkCluster`.
        keeps: whether the store has its objects again when it starts in the same directory.
        store: a running server that has checkpoint and tables; by default one of its own.

    Attributes:
        spark: the master and its workers.
        store: the object store.
        tables: the folder with a copy of the tables, if the store keeps its objects.
    """

    def __init__(
        self,
        directory: Path,
        *,
        hidden: Sequence[Path] | None = None,
        log_dir: Path | None = None,
        keeps: bool = False,
        store: S3Server | None = None,
    ) -> None:
        self._directory = directory
        self._hidden = hidden
        self._kept = directory / "store" if keeps else None
        self._worker: tuple[str, ...] = ()
        self._running = ExitStack()
        self.tables = directory / "store" / BUCKET / "tables"
        self.spark = SparkCluster(directory / "spark", workers=0, log_dir=log_dir)
        self._store = store
        self.store: S3Server  # set at the start

    def __enter__(self) -> Self:
        for folder in self._hidden or ():
            folder.mkdir(parents=True, exist_ok=True)
        if self._hidden is not None:
            self._worker = with_empty(self._hidden)
        self._directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as running:
            self.store = self._store or running.enter_context(ObjectStoreServer(folder=self._kept))
            self.store.make_bucket(BUCKET)
            running.enter_context(self.spark)
            for _ in range(WORKERS):
                self.add_worker()
            self._running = running.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def add_worker(self) -> int:
        """Start another worker and return its number."""
        return self.spark.add_worker(self._worker)

    def config(self, config: JobConfig, name: str = "") -> JobConfig:
        """The configuration of a job here, with checkpoint and tables in the store.

        Args:
            name: their folder in the store; jobs must not share one.
        """
        options: dict[str, Property] = {}
        for option, value in self.store.options.items():
            options[option] = value
            if is_secret_name(option):
                file = self._directory / option
                file.write_text(value, "utf-8")
                options[option] = Secret("file", str(file.absolute()))
        place = f"s3://{BUCKET}/{name}".rstrip("/")
        job = attrs.evolve(
            config.job,
            checkpoint_location=f"{place}/checkpoints",
            tables_location=f"{place}/tables",
            storage=("s3",),
            master=self.spark.master,
            shuffle_partitions=config.job.shuffle_partitions or WORKERS,
            spark_properties={**PROPERTIES},
        )
        return attrs.evolve(
            config,
            job=job,
            tables=attrs.evolve(config.tables, storage_options=options),
            flow=FlowSettings(vm_memory_high_watermark=MEMORY),
        )
