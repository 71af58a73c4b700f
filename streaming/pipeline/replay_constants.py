"""What decides how a batch is cut into files and records, apart from its records and settings.

A batch that runs again must write the same files and send the same records. These constants may
change with an upgrade. The manifest has those of the batch that may be unfinished; with others, it
must be finished by the version that began it.
"""

from streaming.pipeline import fold
from streaming.pipeline.outbound import truncation
from streaming.pipeline.rows import bounds, dead_letters, events, messages


def replay_constants() -> dict[str, str]:
    """Return name -> value of everything that a replay depends on."""
    return {
        "bytes per file": str(bounds.MAX_FILE_BYTES),
        "bytes of bodies in memory": str(bounds.MAX_BODY_BYTES),
        "bytes of texts in memory": str(bounds.MAX_TEXT_BYTES),
        "bytes of headers in memory": str(bounds.MAX_HEADER_BYTES),
        "bytes of names per row": str(messages.NAMES_BYTES),
        "offsets per file": str(bounds.MAX_FILE_OFFSETS),
        "rows of events per file": str(events.MAX_ROWS),
        "bytes per death": str(dead_letters.DEATH_BYTES),
        "bytes per outbound header": str(truncation.HEADER_BYTES),
        "bytes of state per copy": str(fold.STATE_BYTES_PER_COPY),
    }
