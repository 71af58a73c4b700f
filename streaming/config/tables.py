"""`[tables]`: how the Delta tables are kept small in files and current in content."""

from typing import Annotated

import msgspec

from streaming.config.pass_through import Properties, name_rule
from streaming.config.secrets import Property
from streaming.config.sections import Section
from streaming.config.settings import Setting
from streaming.config.types import HOUR_MS, milliseconds, size, whole


class TablesSettings(Section, frozen=True, kw_only=True):
    """Upkeep of the tables, all of it off the path of a batch."""

    contents_lag_ms: Annotated[
        int,
        Setting(
            milliseconds(100, HOUR_MS),
            "How far queue_contents may be behind the broker. It costs a merge each time, so it "
            "is not kept current with each batch.",
        ),
    ] = 5_000
    compaction_interval_ms: Annotated[
        int,
        Setting(
            milliseconds(1_000),
            "How often the small files of the batches are joined. A minute: at ten batches a "
            "second a query then opens some hundred files, not thousands.",
        ),
    ] = 60_000
    compaction_target_bytes: Annotated[
        int,
        Setting(size(1_048_576, 4_294_967_296), "The size that joined files aim at: 128 MiB."),
    ] = 134_217_728
    checkpoint_interval_commits: Annotated[
        int,
        Setting(
            whole(1, 100_000),
            "Commits between two checkpoints of a table's Delta log. Each commit since the last "
            "checkpoint makes the next one 0.18 ms slower, and a reader replays them all.",
        ),
    ] = 20
    log_retention_ms: Annotated[
        int,
        Setting(
            milliseconds(60_000),
            "How long the Delta log keeps old versions, for time travel and for readers that are "
            "still loading one. Each thousand of them makes every commit 2.5 ms slower, and there "
            "are up to 600 a minute; Delta's default of 30 days would hold 26 million files.",
        ),
    ] = 60_000
    vacuum_interval_ms: Annotated[
        int, Setting(milliseconds(1_000), "How often files that no version names are removed.")
    ] = 600_000
    vacuum_retention_ms: Annotated[
        int,
        Setting(
            milliseconds(60_000),
            "How long a file that compaction replaced is kept for queries that still read it: "
            "longer than the longest query.",
        ),
    ] = 3_600_000
    storage_options: Annotated[
        dict[str, Property],
        Setting(
            Properties(name_rule()),
            "Options of the storage under a tables URL, as deltalake and DuckDB take them: "
            'AWS_REGION = "eu-central-1", AWS_SECRET_ACCESS_KEY = { env = "S3_SECRET" }.',
        ),
    ] = msgspec.field(default_factory=dict)
