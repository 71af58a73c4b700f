"""`[job]`: where the job keeps its data, how it keeps time, and what resources it may use."""

import re
from typing import Final, Literal

import attrs

from streaming.config import types
from streaming.config.secrets import Property, properties

_MEMORY: Final = re.compile(r"([1-9][0-9]{0,5})([mg])", re.IGNORECASE)
_LEAST_DRIVER_MEMORY_MB: Final = 512
_GUARANTEED: Final = "is set by the job: its guarantees depend on it"
_REFUSED_SPARK_PROPERTIES: Final = {
    "spark.master": "is written as job.master",
    "spark.driver.memory": "is written as job.driver_memory",
    "spark.sql.shuffle.partitions": "is written as job.shuffle_partitions",
    "spark.sql.streaming.": _GUARANTEED,
    "spark.sql.mapKeyDedupPolicy": _GUARANTEED,
    "spark.jars": "is set by the job: its connectors are pinned and verified",
    "spark.driver.extraJavaOptions": _GUARANTEED,
    "spark.python.unix.domain.socket.enabled": _GUARANTEED,
}


def _driver_memory_fault(text: str) -> str | None:
    found = _MEMORY.fullmatch(text)
    if found is None:
        return 'must be a number of megabytes or gigabytes as Java writes it, such as "2g"'
    megabytes = int(found[1]) * (1024 if found[2] in "gG" else 1)
    if megabytes < _LEAST_DRIVER_MEMORY_MB:
        return f'must be at least "{_LEAST_DRIVER_MEMORY_MB}m": Spark does not start with less'
    return None


def is_local(master: str) -> bool:
    """Whether a Spark master runs driver and executors on one machine."""
    return master.startswith("local")


@attrs.frozen(kw_only=True)
class JobSettings(types.Section):
    """The Spark job itself."""

    checkpoint_location: str = types.setting(
        "checkpoints",
        "Spark's checkpoint: the offsets that were read, and the broker's state. A folder on a "
        "local disk or below shared_mount, or in S3, Azure, Google's storage or HDFS "
        "(experimental: see storage); "
        "a relative path starts at the folder of this file, and file:///PATH works too. Use one "
        "checkpoint per job; if it is lost, `dlx checkpoint rebuild` makes a new one.",
        types.checkpoint(),
    )
    tables_location: str = types.setting(
        "tables",
        "Where the Delta tables are: messages, events, dead_letters, queue_contents and "
        "quarantine, each in a folder with its name. A path or a URL (s3://, abfss://, gs://, "
        "hdfs://).",
        types.storage(),
    )
    shared_mount: str | None = types.setting(
        None,
        "A folder that this machine and every worker of the cluster mount at the same path, such "
        "as NFS. With a cluster as master, checkpoint and tables must be below it, or in shared "
        "storage.",
        types.local("folder"),
        example="/mnt/dlx",
    )
    lease_ms: int = types.setting(
        30_000,
        "How long the lease of a checkpoint below shared_mount or in shared storage lasts without "
        "a renewal. "
        "After a crash, the next start waits that long; a job that cannot renew it for so long "
        "ends.",
        types.milliseconds(2_000, types.HOUR_MS),
    )
    storage: tuple[str, ...] = types.setting(
        (),
        "Kinds of shared storage that Spark itself reads: the jars for them are downloaded and "
        "verified at the first start.",
        types.several("s3", "azure", "gcs"),
    )
    log_dir: str = types.setting(
        "logs",
        "Folder for the logs of the job and of the programs that it starts.",
        types.local("folder"),
    )
    clock: Literal["wall", "event"] = types.setting(
        "wall",
        "wall: real time; a TTL starts with the batch that enqueues the message. event: only the "
        "timestamps of records advance the time, so that replays, backfills and tests are exact.",
        types.choice("wall", "event"),
        outcome=True,
    )
    compat: Literal["4.0", "3.10"] = types.setting(
        "4.0",
        "The RabbitMQ version to behave like where versions differ.",
        types.choice("4.0", "3.10"),
        outcome=True,
    )
    trigger_ms: int = types.setting(
        100,
        "Pause between the starts of two batches. With 100, a reject is visible within a second "
        "and an idle job uses little CPU. 0 starts the next batch at once and keeps half a core "
        "busy. Beside fronts, if a batch of much traffic takes more than 0.5 s, the next begins "
        "twice as long after it began, but at most 1.5 s or half of `amqp.max_lag_ms`. If all "
        "vhosts are sequenced, and clients use all cores behind a batch that took 1 s or more, the "
        "next waits for a core while 10,000 records or more wait for it, until 20 s after the last "
        "one began at most. It waits for no more than a third of `amqp.max_lag_ms`, "
        "`amqp.max_lag_bytes` (estimated) and `metrics.stalled_after_ms`, and not at all if "
        "`spare_cores` is 0.",
        types.milliseconds(most=types.HOUR_MS),
    )
    max_batch_rows: int = types.setting(
        200_000,
        "Maximum number of publishes, and of commands, in one batch. Batches grow to it only to "
        "work off a backlog: under live traffic the job chooses smaller ones, so that rejects are "
        "soon visible. If all vhosts are sequenced, each batch may read as much, as memory allows.",
        types.whole(1, 10_000_000),
    )
    max_batch_bytes: int = types.setting(
        1_073_741_824,
        "Approximate maximum size of the bodies, and of the commands, in one batch, estimated from "
        "recent ones: 1 GiB. Larger batches of publishes take longer, but no more memory.",
        types.size(1_048_576, 1 << 40),
    )
    master: str = types.setting(
        "local[*]",
        "Spark's master. local[*] runs everything in one process, with one thread per core. A "
        "cluster's master needs shuffle_partitions, and a size as flow.vm_memory_high_watermark.",
        types.matching(
            r"local(\[[0-9*]+(,\s*[0-9]+)?\])?|spark://\S+|yarn|k8s://\S+",
            "a Spark master: local[*], local[N], spark://HOST:PORT, yarn or k8s://URL",
        ),
    )
    executor_python: str | None = types.setting(
        None,
        "The Python of a cluster's executors, as a path or a name there; the driver's machine need "
        "not have it. It must have the driver's version. Not set: the path of the driver's Python.",
        types.text(lambda text: None if text.strip() else "is empty: name a Python"),
        example="/usr/bin/python3.11",
    )
    executor_packages: Literal["installed", "shipped"] = types.setting(
        "installed",
        "The Python packages that tasks import on a cluster's executors. installed: they are there "
        "in the driver's versions. shipped: the driver sends its own, 170 MB for each executor; "
        "operating system and processor must be alike. dlx itself is always sent.",
        types.choice("installed", "shipped"),
    )
    driver_memory: str = types.setting(
        "2g",
        "Java heap of the driver, as Java writes sizes.",
        types.text(_driver_memory_fault, f'at least "{_LEAST_DRIVER_MEMORY_MB}m"'),
    )
    shuffle_partitions: int | None = types.setting(
        None,
        "Number of tasks in the stateful stage. It is fixed when the checkpoint is created, since "
        "the state is partitioned by it; `dlx checkpoint rebuild` changes it. Not set: the number "
        "of cores at that moment.",
        types.whole(1, 10_000),
        example="8",
    )
    nice: int | None = types.setting(
        None,
        "How far Spark on the driver's machine yields to other programs, as the system counts "
        "it: with 10, Kafka and `dlx amqp` have most of the processor while all want it. While a "
        "batch takes longer than half of `amqp.max_lag_ms`, Spark has its share of it, and of all "
        "cores, so that publishers need not wait for tables. Not set: 10 if a vhost is sequenced, "
        "else 0.",
        types.whole(0, 19),
        example="10",
    )
    spare_cores: int | None = types.setting(
        None,
        "How many cores of the driver's machine Spark leaves to other programs, such as Kafka and "
        "`dlx amqp`, so that these wait for none of its threads; it always has one. Not set: 1 if "
        "a vhost is sequenced and Spark runs on this machine alone, else 0. Set 0 if the front and "
        "Kafka run elsewhere.",
        types.whole(0, 1_024),
        example="1",
    )
    spark_properties: dict[str, Property] = types.setting(
        {},
        "Further properties of the Spark session, such as the credentials of shared storage: "
        '"spark.hadoop.fs.s3a.secret.key" = { env = "S3_SECRET" }.',
        properties(("spark.",), _REFUSED_SPARK_PROPERTIES),
    )
