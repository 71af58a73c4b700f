"""What decides how a batch is cut into files and records, apart from its records and settings.

A batch that runs again must write the same files and send the same records. These constants may
change with an upgrade, and some by `job.spark_properties`. The manifest has those of the batch that
may be unfinished; with others, it must be finished by the version and settings that began it.
"""

from typing import Final

from streaming.config import JobConfig
from streaming.pipeline import fold
from streaming.pipeline.outbound import truncation
from streaming.pipeline.rows import bounds, dead_letters, events, messages

ARROW: Final = "spark.sql.execution.arrow."
BATCH_ROWS: Final = f"{ARROW}maxRecordsPerBatch"
BATCH_BYTES: Final = f"{ARROW}maxBytesPerBatch"


def replay_constants(config: JobConfig, spark_settings: dict[str, str]) -> dict[str, str]:
    """Return name -> value of everything that a replay depends on.

    Args:
        spark_settings: the settings that `job.spark_properties` may override.
    """
    given = {**spark_settings, **config.job.spark_properties}
    return {
        **{name: str(given[name]) for name in (BATCH_ROWS, BATCH_BYTES)},
        "bytes per file": str(bounds.MAX_FILE_BYTES),
        "bytes of bodies in memory": str(bounds.MAX_BODY_BYTES),
        "bytes of texts in memory": str(bounds.MAX_TEXT_BYTES),
        "bytes of headers in memory": str(bounds.MAX_HEADER_BYTES),
        "bytes of names per row": str(messages.NAMES_BYTES),
        "bits of a body's file": str(messages.FILE_BITS),
        "rows of events per file": str(events.MAX_ROWS),
        "bytes per death": str(dead_letters.DEATH_BYTES),
        "bytes per outbound header": str(truncation.HEADER_BYTES),
        "bytes of state per copy": str(fold.STATE_BYTES_PER_COPY),
    }
