"""`[tables]`: how the job keeps the Delta tables compact and up to date."""

import re
from typing import Any, Final

import attrs

from streaming.config.secrets import Property, properties
from streaming.config.types import (
    HOUR_MS,
    TEN_YEARS_MS,
    Kind,
    Section,
    invalid,
    kind_of,
    milliseconds,
    setting,
    size,
    strings,
    whole,
)
from streaming.protocol.search_keys import MAX_PATHS, PATH

RETAINED: Final = ("events", "bodies", "dead_letters")
"""What `retention` can name; `dead_letters.QUEUE` names the deaths in one queue."""

_PERIOD: Final = re.compile(r"(?P<count>[0-9]{1,12})(?P<unit>ms|s|m|h|d|w)")
_UNIT_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": HOUR_MS,
    "d": 24 * HOUR_MS,
    "w": 168 * HOUR_MS,
}


def period_ms(text: str) -> int | None:
    """The milliseconds of a period such as `7d` or `12h`; None if it is not one."""
    found = _PERIOD.fullmatch(text.strip())
    return None if found is None else int(found["count"]) * _UNIT_MS[found["unit"]]


def retention_periods() -> Kind:
    """A table: what is kept -> for how long."""

    def read(raw: Any) -> dict[str, str]:
        if not isinstance(raw, dict):
            raise invalid(f"expected a table, got {kind_of(raw)}")
        for name, period in raw.items():
            table, _, queue = str(name).partition(".")
            if table not in RETAINED or (queue and table != "dead_letters"):
                raise invalid(
                    f"{name!r} is unknown: expected {', '.join(RETAINED)}, or dead_letters.QUEUE"
                )
            length = period_ms(period) if isinstance(period, str) else None
            if length is None or not 0 < length <= TEN_YEARS_MS:
                raise invalid(
                    f"{name} is {period!r}: expected a text such as '12h', '7d' or '4w', at most "
                    "ten years"
                )
        return dict(raw)

    bounds = f'{", ".join(RETAINED)} or "dead_letters.QUEUE", each with a period such as "7d"'
    return Kind("a table", read, bounds, "properties")


def search_paths() -> Kind:
    """An array of paths whose values are indexed."""
    words = (
        "a path such as 'body:$.order', 'body:$.items[0].sku', 'header:tenant' or "
        "'property:message_id'"
    )
    each = strings(PATH, words)

    def read(raw: Any) -> tuple[str, ...]:
        found: tuple[str, ...] = each.read(raw)
        if len(found) > MAX_PATHS:
            raise invalid(f"has {len(found)} paths, more than {MAX_PATHS}")
        return found

    return Kind(each.takes, read, f"{words} each, at most {MAX_PATHS}")


@attrs.frozen(kw_only=True)
class TablesSettings(Section):
    """Maintenance of the tables; none of it delays a batch."""

    contents_lag_ms: int = setting(
        5_000,
        "Maximum lag of queue_contents behind the broker. Each update rewrites files with a "
        "changed row, too slow to do in every batch. While the job works off a backlog, the lag "
        "may be six times as long.",
        milliseconds(100, HOUR_MS),
    )
    compaction_interval_ms: int = setting(
        60_000,
        "How often the small files of the batches are joined. With one minute and ten batches per "
        "second, a query opens some hundred files rather than thousands. Joining waits while the "
        "job works off a backlog, and beside fronts for the end of a burst of traffic, which is a "
        "minute at most, unless a table has 500 small files.",
        milliseconds(1_000),
    )
    compaction_target_bytes: int = setting(
        134_217_728,
        "Maximum size of a joined file: 128 MiB. Files above 16 MiB, or a million rows, are not "
        "joined again.",
        size(1_048_576, 4_294_967_296),
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
    snapshot_interval_ms: int = setting(
        3_600_000,
        "How often a snapshot is written: totals, copies in queues and topology after a batch. So "
        "--as-of and the balance read only later events, and retention can remove earlier ones.",
        milliseconds(1_000),
    )
    snapshot_interval_rows: int = setting(
        1_000_000,
        "Number of rows of events after which a snapshot is written before the interval ends. "
        "--as-of reads about that many in a second. In a backlog, or a burst beside fronts, ten "
        "times as many. Such snapshots take at most one part in 20 of a core.",
        whole(1_000, 1_000_000_000),
    )
    retention: dict[str, str] = setting(
        {},
        "How long rows are kept after a snapshot, by table or by queue of the death: "
        '{ bodies = "7d", dead_letters = "90d", "dead_letters.audit" = "365d", events = "30d" }. '
        "Rows that a message in a queue needs stay. Without it, everything is kept for ever.",
        retention_periods(),
    )
    query_memory_bytes: int = setting(
        1_073_741_824,
        "Maximum memory of one query of the job itself, such as an update of queue_contents: 1 "
        "GiB. Beyond it, DuckDB writes to temporary files.",
        size(134_217_728, 1 << 44),
    )
    search: tuple[str, ...] = setting(
        (),
        "Values by which the console's field and `dlx why` find messages that need not have died, "
        'such as ["body:$.order", "header:tenant", "property:message_id"]. The job indexes those '
        "of the messages that arrive from then on, off the batch path: about 10 bytes each.",
        search_paths(),
    )
    storage_options: dict[str, Property] = setting(
        {},
        "Options of the storage behind a tables URL, with deltalake's names: "
        'AWS_REGION = "eu-central-1", AWS_SECRET_ACCESS_KEY = { env = "S3_SECRET" }.',
        properties(),
    )
