"""Every Spark setting that dlx relies on, each with its reason, measured with pyspark 4.2.0."""

import re
from pathlib import Path
from typing import Final, Literal

LogFormat = Literal["text", "json"]
"""The form of the lines in Spark's logs."""

VFORK_DEPRECATED_SINCE = 25
"""The Java major version that deprecates VFORK; its default is as fast."""

WORKER_DAEMON = "streaming.pipeline.worker_daemon"
"""The module that Python workers are forked from; their command line shows it."""

TASK_ATTEMPTS: Final = 4
"""How often a task may fail before the batch does: Spark's default in a cluster."""

STATE = "spark.sql.streaming.stateStore"
SPARK_SQL_EXECUTION = "org.apache.spark.sql.execution.streaming"


def streaming_settings(
    shuffle_partitions: int, *, local_checkpoints: bool, s3_checkpoints: bool = False
) -> dict[str, str]:
    """The settings of the stateful query; several cannot change during a checkpoint's life.

    Args:
        shuffle_partitions: tasks of the stateful stage.
        local_checkpoints: whether the checkpoint is on a local disk.
        s3_checkpoints: whether it is in S3.
    """
    settings = {
        # State is partitioned by it: fixed when the checkpoint is created.
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        # transformWithState supports only this store.
        f"{STATE}.providerClass": f"{SPARK_SQL_EXECUTION}.state.RocksDBStateStoreProvider",
        # Commits a batch's changes instead of the store's files: 10 ms instead of 176.
        f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        # Counting reads before every write, and makes ListState.appendValue O(list).
        f"{STATE}.rocksdb.trackTotalNumberOfRows": "false",
        # The only encoding with schema evolution.
        f"{STATE}.encodingFormat": "avro",
        # Sources are named in the checkpoint, so one can be added without resetting the others.
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        # The offset log format with named sources.
        "spark.sql.streaming.offsetLog.formatVersion": "2",
        # Otherwise Spark 4.2.0 fails with None.get at a restart after a crash.
        "spark.sql.streaming.checkUnfinishedRepartitionOnRestart": "false",
        # A Kafka record may repeat a header name; a map of headers must not fail.
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        **arrow_settings(),
        # Spark has a daemon for each environment of workers, and this is part of it, which the
        # stateful stage has off: all tasks share one daemon, which imports everything once.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        # Timestamps mean the same wherever the job runs.
        "spark.sql.session.timeZone": "UTC",
    }
    if local_checkpoints:
        # Renames files directly instead of through Hadoop: 110 ms less per batch.
        settings["spark.sql.streaming.checkpointFileManagerClass"] = (
            f"{SPARK_SQL_EXECUTION}.checkpointing.FileSystemBasedCheckpointFileManager"
        )
    if s3_checkpoints:
        # S3 cannot rename; an upload that is aborted leaves nothing. The others have Spark's
        # default, which writes a temporary file and renames it through FileContext. A file then
        # appears whole and never replaces another one, unless Spark says so: Azure renames
        # atomically in a hierarchical namespace, and copies, on a condition, in a flat one; Google
        # moves an object in one request, on the condition that the new name is free. Uploads cannot
        # be aborted in either. The manager of local disks would be wrong there: its rename
        # keeps an existing file, so the changes of a batch that is planned again would be lost.
        settings["spark.sql.streaming.checkpointFileManagerClass"] = (
            "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
        )
    return settings


def arrow_settings() -> dict[str, str]:
    """The size of the batches that go to Python workers."""
    return {
        # Sends rows in batches that fit into memory however large the bodies are.
        "spark.sql.execution.arrow.maxBytesPerBatch": "32m",
        # Distinct headers cost more than rows: use few batches if bodies are short.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    }


def delta_settings() -> dict[str, str]:
    """The settings that enable Delta's SQL on tables addressed by path."""
    return {
        # MERGE, VACUUM, DESCRIBE HISTORY and the other statements.
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        # delta.`/path` as a table name.
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # No Hive metastore and no Derby database in the current folder: tables have paths.
        "spark.sql.catalogImplementation": "in-memory",
    }


def quiet_settings(scratch: Path) -> dict[str, str]:
    """The settings that keep Spark off the terminal and out of the user's folders."""
    return {
        # No port and no web server.
        "spark.ui.enabled": "false",
        # What Spark masks in plans and logs; its default misses JAAS lines and PEM keys.
        "spark.redaction.regex": (
            "(?i)secret|password|passphrase|token|credential|jaas|keystore|private.?key"
            "|(access|account)[.]?key|[.]sas[.]"
        ),
        # It would overwrite the output of dlx.
        "spark.ui.showConsoleProgress": "false",
        # Otherwise created in the current folder, even without any table.
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
    }


def local_settings(scratch: Path, sockets: Path, cores: int) -> dict[str, str]:
    """The settings for driver and executors in one process."""
    return {
        # Otherwise 50 tasks read the log of a table; a small query then takes three times as long.
        "spark.databricks.delta.snapshotPartitions": str(cores),
        # RocksDB's files and shuffles; the next start removes them after a kill -9.
        "spark.local.dir": str(scratch / "spark"),
        # Starts workers at once; Spark ends idle ones after a minute.
        "spark.python.daemon.module": WORKER_DAEMON,
        # Sends rows to Python workers without TCP and its password exchange.
        "spark.python.unix.domain.socket.enabled": "true",
        # Private and short: a socket's path is limited to about 100 bytes.
        "spark.python.unix.domain.socket.dir": str(sockets),
        # The host name need not resolve, and no other machine may connect.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def cluster_settings() -> dict[str, str]:
    """The settings for executors on other machines."""
    return {
        # As above: executors have our packages before the first worker starts.
        "spark.python.daemon.module": WORKER_DAEMON,
        "spark.task.maxFailures": str(TASK_ATTEMPTS),
        # The paths of the machines' folders may be too long for sockets.
        "spark.python.unix.domain.socket.enabled": "false",
        # As for the driver. Spark adds what its Java needs.
        "spark.executor.extraJavaOptions": "-XX:+UseParallelGC -XX:+ExitOnOutOfMemoryError",
    }


def with_retries(master: str) -> str:
    """A local master whose tasks are tried again like those of a cluster.

    local[4] -> local[4,4]. A master that says how often, or that is not local, stays.
    """
    found = re.fullmatch(r"local(?:\[([0-9]+|\*)\])?", master)
    return master if found is None else f"local[{found[1] or 1},{TASK_ATTEMPTS}]"


def driver_java_options(
    scratch: Path,
    log_file: Path,
    *,
    log_level: str,
    java_major: int,
    log_format: LogFormat = "text",
) -> str:
    """The options of the driver's JVM for `spark.driver.extraJavaOptions`."""
    name = "log4j2-json.properties" if log_format == "json" else "log4j2.properties"
    log_configuration = Path(__file__).parents[1] / "embedded" / "jvm" / name
    # Starting a Python worker must not copy the page tables of a large JVM.
    vfork = ("-Djdk.lang.Process.launchMechanism=VFORK",)
    options = (
        *(vfork if java_major < VFORK_DEPRECATED_SINCE else ()),
        # query.stop() during foreachBatch overflows a small stack.
        "-Xss64m",
        # Few objects outlive a batch, and G1 marks the heap for large Kafka fetches: this takes a
        # quarter of processor time off the JVM, a tenth off the job.
        "-XX:+UseParallelGC",
        # Unpacks native libraries here; a killed JVM would leave them in /tmp.
        f"-Djava.io.tmpdir={scratch / 'tmp'}",
        # In case something starts Derby.
        f"-Dderby.system.home={scratch / 'tmp'}",
        # Log to a file rolled by size instead of stderr.
        f"-Dlog4j2.configurationFile={log_configuration}",
        f"-Ddlx.log.file={log_file}",
        f"-Ddlx.log.level={log_level}",
        # A killed JVM would leave this file in /tmp.
        "-XX:-UsePerfData",
        # After an out-of-memory error a JVM works unreliably: end it.
        "-XX:+ExitOnOutOfMemoryError",
    )
    return " ".join(f'"{option}"' for option in options)
