"""Every Spark setting that dlx relies on, each with its reason.

The values were measured with pyspark 4.2.0; what a setting changes is said where it is not plain.
"""

from pathlib import Path

VFORK_DEPRECATED_SINCE = 25
"""The Java major version that warns of this way of starting processes; its own is as good."""

WORKER_DAEMON = "streaming.pipeline.task.worker_daemon"
"""The module that Python workers are forked from; it stands in their command line."""

STATE = "spark.sql.streaming.stateStore"
SPARK_SQL_EXECUTION = "org.apache.spark.sql.execution.streaming"


def streaming_settings(shuffle_partitions: int, *, local_checkpoints: bool) -> dict[str, str]:
    """What the stateful query needs; several cannot change in the life of a checkpoint.

    Args:
        shuffle_partitions: tasks of the stateful stage.
        local_checkpoints: whether the checkpoint is on a local disk.
    """
    settings = {
        # The state is divided by it: fixed when the checkpoint is made.
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        # transformWithState works with this store only.
        f"{STATE}.providerClass": f"{SPARK_SQL_EXECUTION}.state.RocksDBStateStoreProvider",
        # Uploads a batch's changes, not the files of the store: commit in 10 ms instead of 176.
        f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        # Counting reads before every write, and makes ListState.appendValue O(list).
        f"{STATE}.rocksdb.trackTotalNumberOfRows": "false",
        # The one encoding whose schema may evolve.
        f"{STATE}.encodingFormat": "avro",
        # Sources are named in the checkpoint: one can be added without losing the others' place.
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        # The form of the offset log that has names in it.
        "spark.sql.streaming.offsetLog.formatVersion": "2",
        # Spark 4.2.0 with that form: a restart after a crash dies of None.get otherwise.
        "spark.sql.streaming.checkUnfinishedRepartitionOnRestart": "false",
        # Kafka allows a header name twice in one record; a map of them must not fail.
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        # Rows reach the Python workers without TCP and its password exchange.
        "spark.python.unix.domain.socket.enabled": "true",
        # Rows reach the workers in pieces that fit into memory however large their bodies are.
        "spark.sql.execution.arrow.maxBytesPerBatch": "32m",
        # Distinct headers cost more than rows do: few pieces where bodies are short.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        # Timestamps mean the same wherever the job runs.
        "spark.sql.session.timeZone": "UTC",
    }
    if local_checkpoints:
        # Renames files itself instead of asking Hadoop's abstraction: 110 ms less a batch.
        settings["spark.sql.streaming.checkpointFileManagerClass"] = (
            f"{SPARK_SQL_EXECUTION}.checkpointing.FileSystemBasedCheckpointFileManager"
        )
    return settings


def delta_settings() -> dict[str, str]:
    """What makes Delta's SQL work on tables addressed by their path."""
    return {
        # MERGE, VACUUM, DESCRIBE HISTORY and the other statements.
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        # delta.`/path` as a table name.
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Tables are found by path: no Hive metastore, no Derby database in the current folder.
        "spark.sql.catalogImplementation": "in-memory",
    }


def quiet_settings(scratch: Path) -> dict[str, str]:
    """What keeps Spark off the terminal and off the user's folders."""
    return {
        # A port and a web server that nobody asked for.
        "spark.ui.enabled": "false",
        # What Spark masks in plans and logs: by default it knows no JAAS lines and no PEM keys.
        "spark.redaction.regex": (
            "(?i)secret|password|passphrase|token|credential|jaas|keystore|private.?key"
            "|access[.]?key"
        ),
        # It draws over what dlx shows.
        "spark.ui.showConsoleProgress": "false",
        # Made in the current folder otherwise, even if no table is ever put there.
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
    }


def local_settings(scratch: Path, sockets: Path, cores: int) -> dict[str, str]:
    """What holds only where driver and executors are one process."""
    return {
        # 50 tasks to read the log of a table otherwise: a small query takes a third of the time.
        "spark.databricks.delta.snapshotPartitions": str(cores),
        # RocksDB's files and shuffles; after a kill -9 they stay, so the next start removes them.
        "spark.local.dir": str(scratch / "spark"),
        # Workers that come up at once, though Spark ends them after a minute without work.
        "spark.python.daemon.module": WORKER_DAEMON,
        # Private, and short: a socket's path may have some hundred bytes.
        "spark.python.unix.domain.socket.dir": str(sockets),
        # The machine's name need not resolve, and nobody else may connect.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def driver_java_options(scratch: Path, log_file: Path, *, log_level: str, java_major: int) -> str:
    """The options of the driver's JVM, as `spark.driver.extraJavaOptions` takes them."""
    log_configuration = Path(__file__).parents[1] / "embedded" / "jvm" / "log4j2.properties"
    # Starting a Python worker must not copy the page tables of a large JVM.
    vfork = ("-Djdk.lang.Process.launchMechanism=VFORK",)
    options = (
        *(vfork if java_major < VFORK_DEPRECATED_SINCE else ()),
        # query.stop() during foreachBatch overflows a small stack.
        "-Xss64m",
        # Little lives longer than a batch, and the fetches of Kafka's records are humongous to G1,
        # which marks the heap for them: a quarter less processor time here, a tenth of the job's.
        "-XX:+UseParallelGC",
        # Native libraries are unpacked here; a killed JVM would leave them in /tmp.
        f"-Djava.io.tmpdir={scratch / 'tmp'}",
        # In case something starts Derby after all.
        f"-Dderby.system.home={scratch / 'tmp'}",
        # A log file rolled by size instead of stderr.
        f"-Dlog4j2.configurationFile={log_configuration}",
        f"-Ddlx.log.file={log_file}",
        f"-Ddlx.log.level={log_level}",
        # Another file in /tmp that a killed JVM leaves.
        "-XX:-UsePerfData",
        # A JVM that half works is worse than one that ended.
        "-XX:+ExitOnOutOfMemoryError",
    )
    return " ".join(f'"{option}"' for option in options)
