"""The Spark session of a job: pinned jars, a Java that works, reasoned settings, a quiet terminal.

    make_session(config) -> SparkSession ... stop_session(spark)

The JVM is started here rather than by `SparkSession.builder`, so that what it prints goes to a file
and that settings which may hold secrets travel over the gateway, not over its command line, which
every user of the machine can read. It ends with this process, however this process ends.

    WORK_DIR/session-XXXX/   RocksDB's local files, temporary files; removed by stop_session, or by
                             the next session that uses the same folder if this one was killed
    LOG_DIR/spark.log        what Spark says, rolled by size
    LOG_DIR/spark.out        what its JVM and the Python workers print since the last start
"""

import os
import sys
import sysconfig
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.jars import resolve_jars
from streaming.embedded.jvm.java import Java, find_java, spark_java_home
from streaming.spark.jvm import (
    end_jvm,
    environment,
    has_ended,
    launch_jvm,
    make_context,
    own_interrupt_handler,
)
from streaming.spark.scratch import Scratch
from streaming.spark.settings import (
    delta_settings,
    driver_java_options,
    local_settings,
    quiet_settings,
    streaming_settings,
)

if TYPE_CHECKING:
    from rich.console import Console

CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder that `streaming` and `topology` are in: a checkout, or site-packages."""

AT_LAUNCH = "spark.driver."
"""What begins so is for the JVM's command line: a class path, for one. It holds no secrets."""

JVM_ENDS_S = 5.0
"""Its connections break a little before it has ended."""

PANDAS_WARNING = "PySpark does not yet fully support pandas"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """What a session is made from.

    Attributes:
        work_dir: holds the session's temporary files; made if missing.
        log_dir: holds spark.log and spark.out; made if missing.
        master: Spark's master: local[N], or a cluster's.
        driver_memory: the JVM's heap, as Java writes sizes.
        shuffle_partitions: tasks of the stateful stage; the cores of this machine if not given.
        local_checkpoints: whether checkpoints are on a local disk.
        log_level: from which level on Spark's log is kept.
        properties: further Spark properties by name; they win. They may hold secrets.
        cache_dir: where downloaded jars are kept; the user's cache by default.
    """

    work_dir: Path
    log_dir: Path
    app_name: str = "dlx"
    master: str = "local[*]"
    driver_memory: str = "2g"
    shuffle_partitions: int | None = None
    local_checkpoints: bool = True
    log_level: str = "warn"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache_dir: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are one process."""
        return self.master.startswith("local")


_scratch: dict[int, Scratch] = {}
"""The temporary folder of each session that this process started, by the process id of its JVM."""


def make_session(config: SessionConfig, progress: "Console | None" = None) -> SparkSession:
    """Start Spark.

    Args:
        config: folders, master, memory, properties.
        progress: shows a bar while jars are downloaded.

    Raises:
        EmbeddedError: no Java, no jars, a folder that cannot be written, or the JVM did not start.
        RuntimeError: this process has a Spark session already.
    """
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 (no public way to ask)
        raise RuntimeError("this process has a Spark session: end it with stop_session first")
    jars = resolve_jars("spark", config.cache_dir, progress)
    java = find_java()
    java_home = spark_java_home(java, config.cache_dir)
    try:
        scratch = Scratch.make(config.work_dir.absolute())
        config.log_dir.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise EmbeddedError(
            f"Spark's folders cannot be used: {failure.strerror} ({failure.filename}). Give write "
            "access there, or name other folders."
        ) from failure
    for name in ("spark", "tmp", "conf"):
        scratch.folder(name)
    # pandas 3 works for what dlx uses: Arrow, and no pandas API on Spark.
    warnings.filterwarnings("ignore", PANDAS_WARNING, FutureWarning)
    output = config.log_dir.absolute() / "spark.out"
    variables = _process_environment(config, java_home, scratch)
    with environment(variables), own_interrupt_handler():
        try:
            gateway = launch_jvm(_launch_settings(config, java, jars, scratch), output)
        except BaseException:
            scratch.remove()
            raise
        _scratch[gateway.proc.pid] = scratch
        try:
            context = make_context(_settings(config, scratch), gateway)
        except BaseException:
            _end(gateway)
            raise
    if not config.is_local:
        context.addPyFile(str(_packages_as_zip(scratch.path / "dlx-packages.zip")))
    return SparkSession(context)


def stop_session(spark: SparkSession) -> None:
    """Stop Spark and its JVM, and remove its temporary files.

    Running queries are cut off as a crash would: stop them first. Afterwards this process can make
    another session, with other settings.
    """
    gateway = spark.sparkContext._gateway  # noqa: SLF001 (pyspark keeps the JVM for ever otherwise)
    assert gateway is not None
    if has_ended(gateway, 0):
        SparkContext._active_spark_context = None  # noqa: SLF001 (its stop would ask the JVM)
    else:
        spark.stop()
    _end(gateway)


def explain_lost_jvm(spark: SparkSession) -> EmbeddedError | None:
    """What to say after a call into Spark failed, if that was because its JVM has ended."""
    gateway = spark.sparkContext._gateway  # noqa: SLF001 (as above)
    if gateway is None or not has_ended(gateway, JVM_ENDS_S):
        return None
    status = gateway.proc.returncode
    how = f"killed by signal {-status}" if status < 0 else f"with status {status}"
    return EmbeddedError(
        f"Spark's JVM has ended by itself ({how}): memory may have run out, or somebody killed "
        "it. Its logs are spark.log and spark.out in the folder of logs. Nothing is lost by that: "
        "start again with the same command to go on."
    )


def available_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _launch_settings(
    config: SessionConfig, java: Java, jars: list[Path], scratch: Scratch
) -> dict[str, str]:
    """What must be known when the JVM starts; visible to the machine's other users."""
    log_file = config.log_dir.absolute() / "spark.log"
    return {
        "spark.master": config.master,
        "spark.app.name": config.app_name,
        "spark.driver.memory": config.driver_memory,
        "spark.driver.extraJavaOptions": driver_java_options(
            scratch.path, log_file, log_level=config.log_level, java_major=java.major
        ),
        "spark.jars": ",".join(jar.as_uri() for jar in jars),
        **{name: value for name, value in config.properties.items() if name.startswith(AT_LAUNCH)},
    }


def _settings(config: SessionConfig, scratch: Scratch) -> dict[str, str]:
    cores = available_cores()
    partitions = config.shuffle_partitions or cores
    local = local_settings(scratch.path, scratch.sockets, cores) if config.is_local else {}
    return {
        **streaming_settings(partitions, local_checkpoints=config.local_checkpoints),
        **delta_settings(),
        **quiet_settings(scratch.path),
        **local,
        **_worker_environment(config),
        **config.properties,
    }


def _worker_environment(config: SessionConfig) -> dict[str, str]:
    """What the Python workers find in their environment, as Spark settings."""
    said = (os.environ.get("PYTHONWARNINGS"), f"ignore:{PANDAS_WARNING}:FutureWarning")
    settings = {"spark.executorEnv.PYTHONWARNINGS": ",".join(filter(None, said))}
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    if config.is_local and CHECKOUT not in installed:
        settings["spark.executorEnv.PYTHONPATH"] = str(CHECKOUT)
    return settings


def _process_environment(
    config: SessionConfig, java_home: Path, scratch: Scratch
) -> dict[str, str | None]:
    """The environment variables that decide how pyspark starts its JVM; None removes one."""
    variables: dict[str, str | None] = {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),  # not another Spark of the machine's
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": None,
        "PYSPARK_GATEWAY_PORT": None,
        "SPARK_LOCAL_DIRS": None,  # it would win over spark.local.dir
        "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    if config.is_local:
        variables["SPARK_CONF_DIR"] = str(scratch.path / "conf")  # empty: no defaults but ours
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


def _end(gateway: Any) -> None:
    """End the JVM and remove its temporary files."""
    end_jvm(gateway)
    _scratch.pop(gateway.proc.pid).remove()


def _packages_as_zip(path: Path) -> Path:
    """Our two packages in one file, for the Python workers of a cluster."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in ("streaming", "topology"):
            for file in sorted((CHECKOUT / package).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    archive.write(file, file.relative_to(CHECKOUT))
    return path
