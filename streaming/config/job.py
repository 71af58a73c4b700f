"""`[job]`: where the job lives, how it keeps time, and what it may use."""

import re
from typing import Annotated, Final, Literal

import msgspec

from streaming.config.pass_through import Properties, name_rule
from streaming.config.secrets import Property
from streaming.config.sections import Section
from streaming.config.settings import Setting
from streaming.config.types import (
    HOUR_MS,
    choice,
    local,
    matching,
    milliseconds,
    size,
    storage,
    text,
    whole,
)

_MEMORY: Final = re.compile(r"([1-9][0-9]{0,5})([mg])", re.IGNORECASE)
_LEAST_DRIVER_MEMORY_MB: Final = 512
_OURS: Final = "is what the guarantees rest on: the job sets it"
_SPARK_HINTS: Final = {
    "spark.master": "is written as job.master",
    "spark.driver.memory": "is written as job.driver_memory",
    "spark.sql.shuffle.partitions": "is written as job.shuffle_partitions",
    "spark.sql.streaming.": _OURS,
    "spark.sql.mapKeyDedupPolicy": _OURS,
    "spark.jars": "is set by the job: its connectors are pinned and verified",
    "spark.driver.extraJavaOptions": _OURS,
    "spark.python.unix.domain.socket.enabled": _OURS,
}


def _driver_memory_fault(text: str) -> str | None:
    found = _MEMORY.fullmatch(text)
    if found is None:
        return 'must be a number of megabytes or gigabytes as Java takes it, such as "2g"'
    megabytes = int(found[1]) * (1024 if found[2] in "gG" else 1)
    if megabytes < _LEAST_DRIVER_MEMORY_MB:
        return f'must be at least "{_LEAST_DRIVER_MEMORY_MB}m": Spark does not start with less'
    return None


class JobSettings(Section, frozen=True, kw_only=True):
    """The Spark job itself."""

    checkpoint_location: Annotated[
        str,
        Setting(
            local(
                "folder",
                ": the state is kept on a local disk, also where the tables are in shared storage",
            ),
            "Spark's checkpoint: the offsets read and the broker's state. A folder on a local "
            "disk (a relative path starts at the folder of this file; file:///PATH works too). "
            "One job a checkpoint; without it, the tables cannot be continued.",
        ),
    ] = "checkpoints"
    tables_location: Annotated[
        str,
        Setting(
            storage(),
            "Where the Delta tables are: messages, events, dead_letters, queue_contents and "
            "quarantine, each in a folder of its name. A path or a URL (s3://, abfss://, gs://).",
        ),
    ] = "tables"
    log_dir: Annotated[
        str, Setting(local("folder"), "Logs of the job and of the programs that it starts.")
    ] = "logs"
    clock: Annotated[
        Literal["wall", "event"],
        Setting(
            choice("wall", "event"),
            "wall: time passes as on the wall, and a TTL counts from the batch that enqueues. "
            "event: only the timestamps of records move time, so that replays, backfills and "
            "tests are exact.",
            outcome=True,
        ),
    ] = "wall"
    compat: Annotated[
        Literal["4.0", "3.10"],
        Setting(
            choice("4.0", "3.10"),
            "The RabbitMQ version whose behaviour counts where versions differ.",
            outcome=True,
        ),
    ] = "4.0"
    trigger_ms: Annotated[
        int,
        Setting(
            milliseconds(most=HOUR_MS),
            "Pause between the starts of two batches. 100 keeps a reject visible within a second "
            "and an idle machine idle; 0 starts the next batch at once and busies half a core.",
        ),
    ] = 100
    max_batch_rows: Annotated[
        int,
        Setting(
            whole(1, 10_000_000),
            "Most publishes in one batch. Larger batches carry more a second and answer later.",
        ),
    ] = 200_000
    max_batch_bytes: Annotated[
        int,
        Setting(
            size(1_048_576, 1 << 40),
            "About what the bodies of one batch may weigh, judged by the size of recent messages: "
            "1 GiB. Larger batches need longer, not more memory.",
        ),
    ] = 1_073_741_824
    master: Annotated[
        str,
        Setting(
            matching(
                r"local(\[[0-9*]+(,\s*[0-9]+)?\])?|spark://\S+|yarn|k8s://\S+",
                "a Spark master: local[*], local[N], spark://HOST:PORT, yarn or k8s://URL",
            ),
            "Spark's master. local[*] runs everything in one process with a thread a core.",
        ),
    ] = "local[*]"
    driver_memory: Annotated[
        str,
        Setting(text(_driver_memory_fault), "The Java heap of the driver, as Java writes sizes."),
    ] = "2g"
    shuffle_partitions: Annotated[
        int | None,
        Setting(
            whole(1, 10_000),
            "Tasks of the stateful stage. Fixed when the checkpoint is made, since the state is "
            "divided by it; not set: the cores there are at that moment.",
            example="8",
        ),
    ] = None
    spark_properties: Annotated[
        dict[str, Property],
        Setting(
            Properties(name_rule(("spark.",), _SPARK_HINTS)),
            "Further properties of the Spark session, such as the credentials of shared storage: "
            '"spark.hadoop.fs.s3a.secret.key" = { env = "S3_SECRET" }.',
        ),
    ] = msgspec.field(default_factory=dict)
