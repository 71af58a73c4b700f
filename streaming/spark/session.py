"""The Spark session of a job: pinned jars, a suitable Java, explained settings, a quiet terminal.

    make_session(config) -> SparkSession ... stop_session(spark)

This module starts the JVM instead of `SparkSession.builder`. Its output then goes to a file, and
settings that may hold secrets go over the gateway instead of the command line, which every user of
the machine can read. The JVM ends with this process, however this process ends.

    WORK_DIR/session-XXXX/   RocksDB's local files and temporary files; removed by stop_session, or
                             by the next session in the same folder if this one was killed
    LOG_DIR/spark.log        Spark's log, rolled by size
    LOG_DIR/spark.out        output of the JVM and the Python workers since the last start
"""

import os
import sys
import sysconfig
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no types
from pyspark import SparkContext
from pyspark.sql import SparkSession

from streaming.config import JobConfig, reveal
from streaming.config.job import is_local
from streaming.config.types import checkpoint_storage, local_folder
from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.jars import resolve_jars
from streaming.embedded.jvm.java import Java, find_java, spark_java_home
from streaming.embedded.jvm.pinned_jars import JarSet
from streaming.job_locations import storage_options
from streaming.spark import jvm
from streaming.spark.executor_packages import (
    CODE,
    DRIVER_PATH,
    DRIVER_PYTHON,
    ENVIRONMENT,
    PYTHON,
    STARTS_THERE,
    environment_archive,
    python_path,
    write_code,
)
from streaming.spark.scratch import Scratch
from streaming.spark.settings import (
    LogFormat,
    cluster_settings,
    delta_settings,
    driver_java_options,
    local_settings,
    quiet_settings,
    streaming_settings,
    with_retries,
)
from streaming.spark.storage_settings import storage_settings

if TYPE_CHECKING:
    from rich.console import Console

CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder of the packages `streaming` and `topology`: a checkout, or site-packages."""

AT_LAUNCH = "spark.driver."
"""Properties with this prefix go on the JVM's command line. They hold no secrets."""

JVM_ENDS_S = 5.0
"""How long to wait for the end of a JVM whose connections broke."""

NICE_TO_FRONTS = 10
CORES_OF_FRONTS = 1
"""What `job.nice` and `job.spare_cores` are by default with a sequenced vhost."""

PANDAS_WARNING = "PySpark does not yet fully support pandas"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """The configuration of a session.

    Attributes:
        work_dir: holds the session's temporary files; created if missing.
        log_dir: holds spark.log and spark.out; created if missing.
        master: Spark's master: local[N], or a cluster's.
        driver_memory: heap of the JVM, as Java writes sizes.
        shuffle_partitions: tasks of the stateful stage; by default one per core.
        log_format: the form of spark.log and spark.out: text, or a JSON object per line.
        local_checkpoints: whether checkpoints are on a local disk.
        s3_checkpoints: whether they are in S3.
        storage: the sets of jars for shared storage.
        storage_options: as deltalake takes them; they may hold secrets.
        executor_python: the Python of a cluster's executors; by default the path of this one.
        ships_packages: whether a cluster's executors get the packages that tasks import.
        nice: by how much the JVM, and the Python workers of its machine, yield to other programs.
        spare_cores: cores of this machine that they do not use.
        properties: further Spark properties, which override all others. They may hold secrets.
    """

    work_dir: Path
    log_dir: Path
    app_name: str = "dlx"
    master: str = "local[*]"
    driver_memory: str = "2g"
    shuffle_partitions: int | None = None
    local_checkpoints: bool = True
    s3_checkpoints: bool = False
    storage: tuple[JarSet, ...] = ()
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    executor_python: str | None = None
    ships_packages: bool = False
    nice: int = 0
    spare_cores: int = 0
    log_level: str = "warn"
    log_format: LogFormat = "text"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache_dir: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are the same process."""
        return is_local(self.master)


_scratch: dict[int, Scratch] = {}
"""The temporary folder of each session of this process, by the process id of its JVM."""


def nice_of(config: JobConfig) -> int:
    """By how much Spark yields; by default to fronts, since clients wait for them."""
    if config.job.nice is not None:
        return config.job.nice
    return NICE_TO_FRONTS if config.log_topics() else 0


def spare_cores_of(config: JobConfig) -> int:
    """How many cores Spark leaves; by default one to fronts, which may be on this machine."""
    if config.job.spare_cores is not None:
        return config.job.spare_cores
    return CORES_OF_FRONTS if config.log_topics() and is_local(config.job.master) else 0


def shares_cores(config: JobConfig) -> bool:
    """Whether fronts share this machine's cores, so that their clients come first."""
    return bool(config.log_topics() and spare_cores_of(config))


def session_config(
    config: JobConfig, environ: Mapping[str, str], log_format: LogFormat = "text"
) -> SessionConfig:
    """The session of a job.

    Raises:
        InvalidConfigError: a secret cannot be read.
    """
    job = config.job
    log_dir = Path(job.log_dir)
    on_disk = local_folder(job.checkpoint_location) is not None
    return SessionConfig(
        work_dir=log_dir / "work",
        log_dir=log_dir,
        master=job.master,
        driver_memory=job.driver_memory,
        shuffle_partitions=job.shuffle_partitions,
        executor_python=job.executor_python,
        ships_packages=job.executor_packages == "shipped",
        nice=nice_of(config),
        spare_cores=spare_cores_of(config),
        log_format=log_format,
        local_checkpoints=on_disk and job.shared_mount is None,
        s3_checkpoints=checkpoint_storage(job.checkpoint_location) == "s3",
        storage=tuple(job.storage),  # type: ignore[arg-type] # the configuration checks the words
        storage_options=storage_options(config, environ),
        properties=reveal(job.spark_properties, "job.spark_properties", environ),
    )


def make_session(config: SessionConfig, progress: "Console | None" = None) -> SparkSession:
    """Start Spark.

    Raises:
        EmbeddedError: no Java, no jars, an unwritable folder, or the JVM did not start.
        RuntimeError: this process already has a Spark session.
    """
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 (no public way to ask)
        raise RuntimeError("this process already has a Spark session: call stop_session first")
    jars = [
        jar
        for which in ("spark", *config.storage)
        for jar in resolve_jars(which, config.cache_dir, progress)
    ]
    java = find_java()
    java_home = spark_java_home(java, config.cache_dir)
    try:
        scratch = Scratch.make(config.work_dir.absolute())
        config.log_dir.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise EmbeddedError(
            f"Spark's folders cannot be used: {failure.strerror} ({failure.filename}). Give write "
            "access, or configure other folders."
        ) from failure
    for name in ("spark", "tmp", "conf"):
        scratch.folder(name)
    # pandas 3 works with Arrow, which is all that dlx uses of it.
    warnings.filterwarnings("ignore", PANDAS_WARNING, FutureWarning)
    output = config.log_dir.absolute() / "spark.out"
    variables = _process_environment(config, java_home, scratch)
    with jvm.environment(variables), jvm.own_interrupt_handler():
        try:
            gateway = jvm.launch_jvm(
                _launch_settings(config, java, jars, scratch),
                output,
                as_json=config.log_format == "json",
            )
            jvm.make_nice(gateway, config.nice)
            jvm.spare_cores(gateway, config.spare_cores)
        except BaseException:
            scratch.remove()
            raise
        _scratch[gateway.proc.pid] = scratch
        try:
            context = jvm.make_context(_settings(config, scratch), gateway)
            if not config.is_local:
                _send_packages(context, config, scratch)
        except BaseException:
            _end(gateway)
            raise
    return SparkSession(context)


def stop_session(spark: SparkSession) -> None:
    """Stop Spark and its JVM, and remove its temporary files.

    Stop running queries first; they are cut off as by a crash. Afterwards this process can start
    another session with other settings.
    """
    gateway = spark.sparkContext._gateway  # noqa: SLF001 (pyspark keeps the JVM for ever otherwise)
    assert gateway is not None
    if jvm.has_ended(gateway, 0):
        SparkContext._active_spark_context = None  # noqa: SLF001 (its stop would ask the JVM)
    else:
        spark.stop()
    _end(gateway)


def explain_lost_jvm(spark: SparkSession) -> EmbeddedError | None:
    """An error that says so if Spark's JVM has ended; None if it still runs."""
    gateway = spark.sparkContext._gateway  # noqa: SLF001 (as above)
    if gateway is None or not jvm.has_ended(gateway, JVM_ENDS_S):
        return None
    status = gateway.proc.returncode
    how = f"killed by signal {-status}" if status < 0 else f"with status {status}"
    return EmbeddedError(
        f"Spark's JVM ended unexpectedly ({how}): it may have run out of memory, or somebody "
        "killed it. See spark.log and spark.out in the log folder. Nothing is lost: run the same "
        "command again to resume."
    )


def spark_url(location: str) -> str:
    """A location as Spark takes it: Hadoop knows S3 as `s3a`."""
    return f"s3a://{location[5:]}" if location.startswith("s3://") else location


def available_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _launch_settings(
    config: SessionConfig, java: Java, jars: list[Path], scratch: Scratch
) -> dict[str, str]:
    """The settings that the JVM needs at its start; other users of the machine can see them."""
    log_file = config.log_dir.absolute() / "spark.log"
    return {
        "spark.master": with_retries(config.master),
        "spark.app.name": config.app_name,
        "spark.driver.memory": config.driver_memory,
        "spark.driver.extraJavaOptions": driver_java_options(
            scratch.path,
            log_file,
            log_level=config.log_level,
            log_format=config.log_format,
            java_major=java.major,
        ),
        "spark.jars": ",".join(jar.as_uri() for jar in jars),
        **{name: value for name, value in config.properties.items() if name.startswith(AT_LAUNCH)},
    }


def _settings(config: SessionConfig, scratch: Scratch) -> dict[str, str]:
    cores = available_cores()
    partitions = config.shuffle_partitions or cores
    place = (
        local_settings(scratch.path, scratch.sockets, cores)
        if config.is_local
        else cluster_settings()
    )
    return {
        **streaming_settings(
            partitions,
            local_checkpoints=config.local_checkpoints,
            s3_checkpoints=config.s3_checkpoints,
        ),
        **delta_settings(),
        **quiet_settings(scratch.path),
        **place,
        **storage_settings(config.storage, config.storage_options),
        **_worker_environment(config),
        **config.properties,
    }


def _worker_environment(config: SessionConfig) -> dict[str, str]:
    """The environment of the Python workers, as Spark settings."""
    said = (os.environ.get("PYTHONWARNINGS"), f"ignore:{PANDAS_WARNING}:FutureWarning")
    settings = {"spark.executorEnv.PYTHONWARNINGS": ",".join(filter(None, said))}
    if config.is_local and not _is_installed():
        settings["spark.executorEnv.PYTHONPATH"] = str(CHECKOUT)
    if not config.is_local:
        settings["spark.executorEnv.PYTHONPATH"] = python_path(
            with_environment=config.ships_packages
        )
        settings |= {f"spark.executorEnv.{name}": value for name, value in STARTS_THERE.items()}
    return settings


def _is_installed() -> bool:
    """Whether any program of this Python finds our packages."""
    return CHECKOUT in {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}


def _process_environment(
    config: SessionConfig, java_home: Path, scratch: Scratch
) -> dict[str, str | None]:
    """The environment variables with which pyspark starts its JVM; None removes one."""
    variables: dict[str, str | None] = {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),  # not another Spark of this machine
        "PYSPARK_PYTHON": sys.executable if config.is_local else PYTHON,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": None,
        "PYSPARK_GATEWAY_PORT": None,
        "SPARK_LOCAL_DIRS": None,  # it would override spark.local.dir
        "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    if config.is_local:
        variables["SPARK_CONF_DIR"] = str(scratch.path / "conf")  # empty: only our defaults
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    else:
        variables[DRIVER_PYTHON] = sys.executable
        path = (None if _is_installed() else str(CHECKOUT), os.environ.get("PYTHONPATH"))
        variables[DRIVER_PATH] = os.pathsep.join(filter(None, path))
    return variables


def _end(gateway: Any) -> None:
    jvm.end_jvm(gateway)
    _scratch.pop(gateway.proc.pid).remove()


def _send_packages(context: SparkContext, config: SessionConfig, scratch: Scratch) -> None:
    """Let executors fetch our packages; those that join later fetch them too.

    Raises:
        EmbeddedError: the cluster has ended the application.
    """
    code = write_code(scratch.path / f"{CODE}.zip", config.executor_python or sys.executable)
    archives = [f"{code}#{CODE}"]
    if config.ships_packages:
        archives.append(f"{environment_archive(config.cache_dir)}#{ENVIRONMENT}")
    try:
        for archive in archives:
            context.addArchive(archive)
    except Py4JError as failure:
        raise EmbeddedError(
            f"job.master: {config.master} ended the application at once. See spark.log in the log "
            "folder, and the logs of the master and its workers."
        ) from failure
