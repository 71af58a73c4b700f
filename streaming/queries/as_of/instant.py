"""Ask the tables as of an instant: a batch, a time, or a message by its place in Kafka.

1234            after batch 1234
07:07           every event up to that time
1/0/42          the arrival of that message, and everything that had happened before
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from streaming.queries.as_of.contents import EVENTS, query_ids
from streaming.queries.as_of.snapshots import list_snapshots, opening_batch, refuse_forgotten
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import BeforeHistoryError, QueryError, Tables
from streaming.queries.message_attributes import RECORD
from topology.sentences import say

BATCH: Final = re.compile(r"[0-9]{1,18}")
_NO_BATCH: Final = -1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def resolve(tables: Tables, wanted: str, parse_time: Callable[[str], datetime]) -> Cut:
    """Return the cut that a text means.

    Args:
        parse_time: reads a text that is neither a batch nor a record.

    Raises:
        BeforeHistoryError: it is earlier than what the tables know, or still know.
        QueryError: the tables do not have that batch, time or record.
    """
    wanted = wanted.strip()
    tables.cut = None
    last = last_batch(tables)
    record = RECORD.fullmatch(wanted)
    if BATCH.fullmatch(wanted):
        cut = Cut(int(wanted))
        if cut.batch_id > last:
            what = say(
                "as of %(wanted)s: the last batch is %(last)s; batches count from 0",
                wanted=wanted,
                last=str(last),
            )
            raise QueryError(what)
    elif record is not None:
        cut = _of_record(tables, wanted, record)
    else:
        cut = at_time(tables, parse_time(wanted), last)
    refuse_forgotten(tables, cut, EVENTS)
    return cut


def last_batch(tables: Tables) -> int:
    """The last batch of the only query in the tables.

    Raises:
        QueryError: there is no batch yet, or there are batches of several checkpoints.
    """
    queries = query_ids(tables)
    if len(queries) > 1:
        raise QueryError(
            f"{tables.root}: the tables have batches of several checkpoints (Spark queries "
            f"{', '.join(queries)}), whose batches have no common order"
        )
    tables_last = [tables.table(EVENTS).transaction_version(query) for query in queries]
    last = tables_last[0] if tables_last else None
    if last is None:
        raise QueryError(f"{tables.root}: the table events has no batch yet")
    return int(last)


def at_time(tables: Tables, instant: datetime, last: int) -> Cut:
    """The cut that sees every event up to an instant.

    Raises:
        BeforeHistoryError: the history begins later.
        QueryError: the instant is in the future.
    """
    later = _first_batch_after(tables, instant)
    if later is None and instant > datetime.now(UTC):
        raise QueryError(
            say(
                "as of %(instant)s: is in the future, of which nothing is known; leave the instant "
                "out to see what is there now",
                instant=instant.strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
        )
    whole = last if later is None else later - 1
    opening = opening_batch(tables, EVENTS)
    if opening < 0 or whole <= opening:  # its own later events may have been removed
        first = first_event(tables)
        if first is not None and first > instant:
            raise BeforeHistoryError(
                say(
                    "as of %(instant)s: history begins at %(first)s, and nothing earlier is known: "
                    "name that instant or a later one",
                    instant=_text(instant),
                    first=_text(first),
                ),
                first,
            )
    return Cut(whole, instant)


def _text(instant: datetime) -> str:
    """An instant that can be typed: rounded up to a second, so that it is not earlier."""
    whole = instant.replace(microsecond=0)
    return (whole + timedelta(seconds=instant > whole)).isoformat().replace("+00:00", "Z")


def _first_batch_after(tables: Tables, instant: datetime) -> int | None:
    """The first batch with an event after an instant; it reads the fewest files."""
    paths = tables.of_files(EVENTS, "path") or []
    firsts = tables.of_files(EVENTS, "min.batch_id") or [None] * len(paths)
    later = set(tables.files(EVENTS, {"at": instant}))
    candidates = sorted(
        (least if least is not None else _NO_BATCH, path)
        for path, least in zip(paths, firsts, strict=True)
        if path in later
    )
    found: int | None = None
    for least, path in candidates:
        if found is not None and least >= found:
            break
        tables.view(EVENTS, files=[path], columns=["batch_id", "kind", "at"], view="later")
        [(batch_id,)] = tables.values(
            "SELECT min(batch_id) FROM later WHERE kind <> 'batch' AND "
            f"\"at\" > CAST('{instant.isoformat()}' AS TIMESTAMPTZ)"
        )
        if batch_id is not None:
            found = batch_id if found is None else min(found, batch_id)
    return found


def first_event(tables: Tables) -> datetime | None:
    """The instant from which on the tables know everything; it reads no data files."""
    snapshots = list_snapshots(tables)
    opening = opening_batch(tables, EVENTS)
    known = next((one.at for one in snapshots if one.batch_id == opening), None)
    if known is not None:
        return known
    instants = [one for one in tables.of_files(EVENTS, "min.at") or () if one is not None]
    return min(instants, default=None)


def _of_record(tables: Tables, wanted: str, record: re.Match[str]) -> Cut:
    """The cut after the events by which a message arrived."""
    topic, partition, offset = record["topic"], int(record["partition"]), int(record["offset"])
    columns = ["batch_id", "vhost", "lane", "topic_number", "partition", "offset", "origin"]
    above = {"offset": offset}
    tables.view("messages", files=tables.files("messages", above, inclusive=True), columns=columns)
    of_topic = "topic_number = ?" if topic.isdecimal() else "origin.topic = ?"
    key: list[Any] = [int(topic) if topic.isdecimal() else topic, partition]
    found = tables.values(
        "SELECT batch_id, vhost, lane, topic_number FROM messages WHERE "
        f'{of_topic} AND "partition" = ? AND "offset" = ?',
        [*key, offset],
    )
    if not found:
        removed: str = ""
        if opening_batch(tables, "messages") >= 0:
            removed = say(", or tables.retention removed it, and nothing earlier is known")
        raise QueryError(
            say(
                "as of %(wanted)s: the tables have no message with that topic, partition and "
                "offset%(removed)s; `dlx dead-letters list` and `dlx queues peek` print such ids",
                wanted=wanted,
                removed=removed,
            )
        )
    batch_id, vhost, lane, number = found[0]
    before = Cut(batch_id - 1)
    files = tables.files(EVENTS, {"batch_id": batch_id}, inclusive=True)
    names = ["batch_id", "vhost", "lane", "seq", "at", "message_id", "copy_id", "parent_copy_id"]
    tables.view(EVENTS, files=files, columns=names, view="arrivals")
    [(seq, at)] = tables.connection.execute(
        """
        SELECT max(seq), epoch_us(max("at")) FROM arrivals
        WHERE batch_id = ? AND vhost = ? AND lane = ? AND message_id.topic_number = ?
        AND message_id."partition" = ? AND message_id."offset" = ?
        AND (copy_id IS NULL OR (copy_id = seq AND parent_copy_id IS NULL))
        """,
        [batch_id, vhost, lane, number, partition, offset],
    ).fetchall()
    if seq is None:
        raise QueryError(
            say("as of %(wanted)s: no event says how that message arrived", wanted=wanted)
        )
    return before._replace(at=_of_micros(at), last_seq={(vhost, lane): seq})


def _of_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
