"""Find messages by values of the paths of `[tables] search`, which the job indexes.

17  -->  key  -->  rows of search_keys  -->  messages; sorted files and row groups make it quick

The index holds hashes, so it says where a value is only to who has the value. It has what arrived
since a path was set; `indexed_paths` says since when.
"""

from typing import Final

import msgspec

from streaming.protocol.search_keys import MAX_VALUE_BYTES, key_of
from streaming.queries.as_of.snapshots import SNAPSHOTS
from streaming.queries.duckdb_tables import Tables, iso
from streaming.queries.message_attributes import MessageId

SEARCH_KEYS: Final = "search_keys"
SEARCH_KIND: Final = "search"
"""The kind of rows in `snapshots` that say which paths are indexed after a batch."""

_COLUMNS: Final = ("batch_id", "vhost", "topic_number", "partition", "offset", "path", "key")


class IndexedPath(msgspec.Struct, frozen=True):
    """A path that is indexed for every message after a batch; `since` is the batch's instant."""

    path: str
    after_batch: int
    since: str


class IndexedMessage(msgspec.Struct, frozen=True):
    """A message that has a value, the path where it is, and the batch in which it arrived."""

    message_id: MessageId
    path: str
    vhost: str
    batch_id: int = -1


class _Detail(msgspec.Struct):
    paths: list[str] = []


def indexed_paths(tables: Tables) -> list[IndexedPath]:
    """The paths that are indexed now, in their order; none if the job indexes nothing."""
    found: dict[str, IndexedPath] = {}
    if not tables.has(SNAPSHOTS):
        return []
    columns = ["batch_id", "kind", "at", "detail"]
    view = tables.view(SNAPSHOTS, columns=columns, view=tables.new_name(SNAPSHOTS))
    rows = tables.rows(
        f'SELECT batch_id, "at", detail FROM {view} WHERE kind = ? ORDER BY batch_id, "at"',
        [SEARCH_KIND],
    )
    for row in rows:
        paths = msgspec.json.decode(row["detail"] or "{}", type=_Detail).paths
        begun = IndexedPath("", row["batch_id"], iso(row["at"]) or "")
        found = {
            path: found.get(path) or msgspec.structs.replace(begun, path=path) for path in paths
        }
    return list(found.values())


def messages_with(
    tables: Tables, value: str, count: int, *, vhost: str | None = None
) -> list[IndexedMessage]:
    """List the messages that have a value at an indexed path, the latest first.

    Those that arrived after the cut of the tables are left out.

    Args:
        count: the most that are listed.
        vhost: look at its messages only.
    """
    if not value or len(value.encode()) > MAX_VALUE_BYTES or not tables.has(SEARCH_KEYS):
        return []
    view = tables.view(SEARCH_KEYS, columns=_COLUMNS, view=tables.new_name(SEARCH_KEYS))
    # The key is no parameter: DuckDB would read every row group then, 20 times as long.
    found = tables.values(
        f"""
        SELECT topic_number, "partition", "offset", min(path), vhost, max(batch_id) AS latest
        FROM {view} WHERE key = {key_of(value)} AND (? IS NULL OR vhost = ?) AND {_seen(tables)}
        GROUP BY topic_number, "partition", "offset", vhost
        ORDER BY latest DESC, topic_number, "partition", "offset" DESC LIMIT {count}
        """,
        [vhost, vhost],
    )
    return [IndexedMessage(MessageId(*row[:3]), *row[3:]) for row in found]


def _seen(tables: Tables) -> str:
    """The condition on rows of the index that their messages had arrived by the cut, in SQL."""
    cut = tables.cut
    if cut is None:
        return "true"
    whole = f"batch_id <= {cut.batch_id}"
    if cut.at is None:
        return whole
    files = tables.files("events", {"batch_id": cut.batch_id})
    view = tables.view(
        "events", files=files, columns=["batch_id", "message_id"], view=tables.new_name("events")
    )
    return f"""({whole} OR (topic_number, "partition", "offset") IN (
        SELECT (message_id.topic_number, message_id."partition", message_id."offset")
        FROM {view} WHERE message_id IS NOT NULL))"""
