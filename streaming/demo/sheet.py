"""The balance sheet: where every message and every copy of one is, and whether anything is missing.

    published = reached a queue + unroutable + returned + refused + errors       (+ unexplained)
    copies    = acked + consumed + died + purged + deleted + rerouted + held
                + in queues by the ledger                                        (+ unexplained)
    in queues by the ledger = resident by the broker's own state                 (+ unexplained)

The last line compares what the tables say with what the broker, which never reads them, counts.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from streaming.broker.events import ENDINGS, Kind
from streaming.tables.contents_query import EVENTS
from streaming.tables.snapshot import Tables, text

MESSAGES: Final = "messages"
QUARANTINE: Final = "quarantine"

_LEAVING: Final = tuple(kind.name.lower() for kind in sorted((*ENDINGS, Kind.HELD)))
_FATES: Final = {
    "enqueued": "reached a queue",
    "rerouted": "reached a queue",
    "unroutable": "reached no queue, dropped",
    "returned": "reached no queue, returned to the publisher",
    "refused": "refused by a full queue",
    "publish_error": "refused with a channel error",
}
"""What can become of a publish, the better fate first: a message counts once."""

_ENDS: Final = {
    "acked": "acknowledged by a consumer",
    "consumed": "consumed without acknowledgement",
    "purged": "purged",
    "deleted": "lost with a deleted queue",
    "rerouted": "rerouted by its queue's alternate exchange",
    "held": "held by at-least-once dead-lettering",
}


class Sheet(NamedTuple):
    """The balance of all that the tables hold.

    Attributes:
        published: messages.
        fates: what became of the publishes; without zeros.
        copies: made, by publishes and by deaths.
        ends: how copies left their queues, deaths with their reason; without zeros.
        ready, unacked: in queues, by the ledger.
        resident: in queues, by the broker's own state.
        quarantined: records that could not be understood.
    """

    published: int
    fates: Mapping[str, int]
    copies: int
    ends: Mapping[str, int]
    ready: int
    unacked: int
    resident: int
    quarantined: int
    odd_copies: int

    @property
    def unexplained(self) -> int:
        """What is missing or too much; 0 in a closed balance."""
        return (
            abs(self.published - sum(self.fates.values()))
            + abs(self.copies - sum(self.ends.values()) - self.ready - self.unacked)
            + abs(self.ready + self.unacked - self.resident)
            + self.odd_copies
        )

    def lines(self) -> list[str]:
        """The sheet in words."""
        rows = [("messages published", self.published)]
        rows += [(f"  {what}", count) for what, count in self.fates.items()]
        rows += [("copies in queues, ever", self.copies)]
        rows += [(f"  {what}", count) for what, count in self.ends.items()]
        rows += [
            ("  still in a queue, ready", self.ready),
            ("  still in a queue, unacked", self.unacked),
            ("in queues by the broker's own count", self.resident),
            ("records in quarantine", self.quarantined),
            ("unexplained", self.unexplained),
        ]
        width = max(len(what) for what, _count in rows)
        return [f"{what:<{width}}  {count:>9,}" for what, count in rows]


def balance_sheet(tables: Tables) -> Sheet:
    """Draw up the balance.

    Raises:
        QueryError: there are no tables.
    """
    tables.view(MESSAGES, columns=["topic_number", "partition", "offset"])
    tables.view(QUARANTINE, columns=["topic_number"])
    tables.view(
        EVENTS,
        columns=[
            *("kind", "message_id", "copy_id", "parent_copy_id", "reason"),
            *("vhost", "lane", "seq", "batch_id", "detail"),
        ],
    )
    run = tables.values
    (published,) = run("SELECT count(*) FROM messages")[0]
    (quarantined,) = run("SELECT count(*) FROM quarantine")[0]
    copies, odd, ready, unacked = _copies(tables)
    return Sheet(
        published=published,
        fates=_fates(tables),
        copies=copies,
        ends=_ends(tables),
        ready=ready,
        unacked=unacked,
        resident=_resident(tables),
        quarantined=quarantined,
        odd_copies=odd,
    )


def _fates(tables: Tables) -> dict[str, int]:
    """Messages by what became of the publish; those without an event are missing."""
    places = " ".join(f"WHEN {text(kind)} THEN {place}" for place, kind in enumerate(_FATES))
    found = dict(
        tables.values(
            f"""
            SELECT fate, count(*) FROM (
                SELECT min(CASE kind {places} END) AS fate FROM messages JOIN events
                ON events.message_id.topic_number = messages.topic_number
                    AND events.message_id."partition" = messages."partition"
                    AND events.message_id."offset" = messages."offset"
                WHERE parent_copy_id IS NULL
                GROUP BY messages.topic_number, messages."partition", messages."offset"
            ) WHERE fate IS NOT NULL GROUP BY fate
            """  # noqa: S608 (our own words)
        )
    )
    fates: dict[str, int] = {}
    for place, what in enumerate(_FATES.values()):
        if found.get(place):
            fates[what] = fates.get(what, 0) + found[place]
    return fates


def _copies(tables: Tables) -> tuple[int, int, int, int]:
    """Copies made; those that did not begin once or ended twice; ready; unacked."""
    leaving = ", ".join(text(kind) for kind in _LEAVING)
    found = tables.values(
        f"""
        SELECT count(*),
               count(*) FILTER (WHERE born <> 1 OR gone > 1),
               count(*) FILTER (WHERE gone = 0 AND latest IS DISTINCT FROM 'delivered'),
               count(*) FILTER (WHERE gone = 0 AND latest = 'delivered')
        FROM (
            SELECT count(*) FILTER (WHERE kind = 'enqueued') AS born,
                   count(*) FILTER (WHERE kind IN ({leaving}) AND copy_id <> seq) AS gone,
                   arg_max(kind, seq) FILTER (WHERE kind IN ('delivered', 'requeued')) AS latest
            FROM events WHERE copy_id IS NOT NULL GROUP BY vhost, lane, copy_id
            HAVING born > 0 OR gone > 0
        )
        """  # noqa: S608 (our own words)
    )
    copies, odd, ready, unacked = found[0]
    return copies, odd, ready, unacked


def _ends(tables: Tables) -> dict[str, int]:
    """Copies by how they left their queue."""
    leaving = ", ".join(text(kind) for kind in _LEAVING)
    found = tables.values(
        f"SELECT kind, coalesce(reason, ''), count(*) FROM events "  # noqa: S608 (our own words)
        f"WHERE kind IN ({leaving}) AND copy_id <> seq GROUP BY ALL ORDER BY ALL"
    )
    ends: dict[str, int] = {}
    for kind, reason, count in found:
        what = f"dead: {reason}" if kind == "died" else _ENDS[kind]
        ends[what] = ends.get(what, 0) + count
    return ends


def _resident(tables: Tables) -> int:
    """What the broker counted at the last batch, in all shards."""
    found = tables.values(
        "SELECT detail FROM events WHERE kind = 'batch' ORDER BY batch_id DESC LIMIT 1"
    )
    detail = msgspec.json.decode(found[0][0]) if found else {}
    return sum(int(shard[0]) for shard in detail.get("resident", {}).values())
