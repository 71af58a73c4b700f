"""The copies that have not ended, with everything that the broker has to know of each.

    contents of the queues, held copies  +  births, deliveries, children after the snapshot

| column besides those of `snapshot_contents` without it | |
|---|---|
| envelope | of a copy that a death or redrive made, as the broker stores it |
| delivered_seq, delivered_at | of an unacked copy: its last delivery |
| accepted | of a held copy: the targets that have its dead letter |
| cause | of a held copy: what the consumer said that gave it up |
"""

from typing import Final

from streaming.queries.current_contents import EVENTS, prepare_contents
from streaming.queries.duckdb_tables import Tables
from streaming.queries.snapshots import SNAPSHOT_CONTENTS, snapshot_before

_KEY: Final = "vhost, lane, copy_id"
_MORE: Final = {
    "envelope": "BLOB",
    "delivered_seq": "BIGINT",
    "delivered_at": "TIMESTAMPTZ",
    "accepted": "VARCHAR[]",
    "cause": "VARCHAR",
}
_READ: Final = (
    *("batch_id", "vhost", "lane", "seq", "at", "kind", "copy_id", "parent_copy_id", "queue"),
    *("envelope", "detail"),
)


def resident_copies(tables: Tables) -> str:
    """Prepare a query of all copies, ready, unacked and held, at the last batch or at the cut.

    Raises:
        QueryError: the cut lies before everything that the tables still know.
    """
    contents = prepare_contents(tables, held=True)
    run = tables.connection.execute
    run(f"CREATE OR REPLACE TEMP TABLE resident AS {contents}")
    snapshot = snapshot_before(tables)
    since = -1 if snapshot is None else snapshot.batch_id
    files = tables.files(EVENTS, {"batch_id": since})
    tables.view(EVENTS, files=files, columns=_READ, view="copy_event")
    condition = f"batch_id > {since}"
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE births AS
        SELECT vhost, lane, seq AS copy_id, envelope FROM copy_event
        WHERE kind = 'enqueued' AND parent_copy_id IS NOT NULL AND {condition}
        AND (vhost, lane, seq) IN (SELECT (vhost, lane, copy_id) FROM resident)
        """
    )
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE deliveries AS
        SELECT {_KEY}, max(seq) AS delivered_seq, arg_max("at", seq) AS delivered_at
        FROM copy_event WHERE kind = 'delivered' AND {condition} AND (vhost, lane, copy_id) IN
        (SELECT (vhost, lane, copy_id) FROM resident WHERE state = 'unacked') GROUP BY {_KEY}
        """
    )
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE children AS
        SELECT vhost, lane, parent_copy_id AS copy_id, list(queue ORDER BY seq) AS accepted
        FROM copy_event WHERE kind = 'enqueued' AND {condition} AND (vhost, lane, parent_copy_id) IN
        (SELECT (vhost, lane, copy_id) FROM resident WHERE state = 'held')
        GROUP BY vhost, lane, parent_copy_id
        """
    )
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE causes AS
        SELECT {_KEY}, any_value(detail ->> '$.cause') AS cause
        FROM copy_event WHERE kind = 'held' AND {condition} GROUP BY {_KEY}
        """
    )
    if snapshot is None:
        nothing = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in _MORE.items())
        run(
            f"CREATE OR REPLACE TEMP TABLE stored_more AS SELECT {_KEY}, {nothing} FROM resident "
            "WHERE false"
        )
    else:
        with tables.uncut():
            found = tables.files(SNAPSHOT_CONTENTS, {"snapshot": since}, inclusive=True)
            columns = ("vhost", "lane", "copy_id", "snapshot", *_MORE)
            tables.view(SNAPSHOT_CONTENTS, files=found, columns=columns, view="all_stored")
        run(
            f"CREATE OR REPLACE TEMP TABLE stored_more AS SELECT {_KEY}, {', '.join(_MORE)} "
            f"FROM all_stored WHERE snapshot = {since}"
        )
    return f"""
        SELECT resident.*, coalesce(births.envelope, stored_more.envelope) AS envelope,
            CASE state WHEN 'unacked' THEN
                coalesce(deliveries.delivered_seq, stored_more.delivered_seq) END AS delivered_seq,
            CASE state WHEN 'unacked' THEN
                coalesce(deliveries.delivered_at, stored_more.delivered_at) END AS delivered_at,
            CASE state WHEN 'held' THEN list_concat(stored_more.accepted, children.accepted)
                END AS accepted,
            CASE state WHEN 'held' THEN coalesce(causes.cause, stored_more.cause) END AS cause
        FROM resident LEFT JOIN births USING ({_KEY}) LEFT JOIN deliveries USING ({_KEY})
        LEFT JOIN children USING ({_KEY}) LEFT JOIN causes USING ({_KEY})
        LEFT JOIN stored_more USING ({_KEY})
    """
