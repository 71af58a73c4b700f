"""`[tables]`: how the job keeps the Delta tables compact and up to date."""

import attrs

from streaming.config.secrets import Property, properties
from streaming.config.types import HOUR_MS, Section, milliseconds, setting, size, whole


@attrs.frozen(kw_only=True)
class TablesSettings(Section):
    """Maintenance of the tables; none of it delays a batch."""

    contents_lag_ms: int = setting(
        5_000,
        "Maximum lag of queue_contents behind the broker. Each update is a merge, too slow to do "
        "in every batch.",
        milliseconds(100, HOUR_MS),
    )
    compaction_interval_ms: int = setting(
        60_000,
        "How often the small files of the batches are joined. With one minute and ten batches per "
        "second, a query opens some hundred files rather than thousands.",
        milliseconds(1_000),
    )
    compaction_target_bytes: int = setting(
        134_217_728, "Target size of a joined file: 128 MiB.", size(1_048_576, 4_294_967_296)
    )
    checkpoint_interval_commits: int = setting(
        20,
        "Number of commits between two checkpoints of a table's Delta log. Each commit since the "
        "last checkpoint slows the next one by 0.18 ms, and a reader replays them all.",
        whole(1, 100_000),
    )
    log_retention_ms: int = setting(
        60_000,
        "How long the Delta log keeps old versions, for time travel and for readers that are still "
        "loading one. A thousand versions slow each commit by 2.5 ms, and a job writes up to 600 "
        "per minute; Delta's default of 30 days would keep 26 million files.",
        milliseconds(60_000),
    )
    vacuum_interval_ms: int = setting(
        600_000, "How often files that no version refers to are deleted.", milliseconds(1_000)
    )
    vacuum_retention_ms: int = setting(
        3_600_000,
        "How long a file that compaction replaced is kept for queries that still read it. Set it "
        "longer than your longest query.",
        milliseconds(60_000),
    )
    closing_interval_ms: int = setting(
        3_600_000,
        "How often the books are closed: totals, copies in queues and topology are stored, so that "
        "--as-of and the balance read only later events, and retention can remove earlier ones.",
        milliseconds(1_000),
    )
    closing_interval_rows: int = setting(
        2_000_000,
        "Number of rows of events after which the books are closed before the interval ends. "
        "--as-of reads about that many in a second.",
        whole(1_000, 1_000_000_000),
    )
    storage_options: dict[str, Property] = setting(
        {},
        "Options of the storage behind a tables URL, with deltalake's and DuckDB's names: "
        'AWS_REGION = "eu-central-1", AWS_SECRET_ACCESS_KEY = { env = "S3_SECRET" }.',
        properties(),
    )
