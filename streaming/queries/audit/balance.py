"""The balance: where every copy went, by vhost and queue, and what cannot be explained.

    published + dead-lettered in = ready + unacked + held
                                 + acked + consumed + died + purged + deleted + rerouted

Both sides are counted independently. The balance closes if no row of the ledger is missing,
repeated or contradicts another. Otherwise each such row is a finding that names the message.

It starts at the last snapshot: totals and copies there are its opening balance, and
only later rows are read.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from streaming.queries.as_of.snapshots import (
    opening_snapshot,
    refuse_forgotten,
    snapshot_before,
    totals_of,
)
from streaming.queries.audit import checks
from streaming.queries.audit.copy_lifecycle import (
    broken_lifecycles,
    contents_against_events,
    count_copies,
)
from streaming.queries.audit.ledger_rows import Shard, load_ledger
from streaming.queries.audit.sequence_gaps import clues_of_gaps, find_gaps
from streaming.queries.audit.unexplained import Clue, Finding, explain, unmentioned
from streaming.queries.duckdb_tables import Tables

ENDINGS: Final = (
    "acked",
    "consumed",
    "rejected",
    "expired",
    "maxlen",
    "delivery_limit",
    "purged",
    "deleted",
    "rerouted",
    "redriven",
    "discarded",
)
"""The ways in which a copy leaves a queue; for deaths, the reason."""


class QueueBalance(msgspec.Struct):
    """The balance of one queue, or of rows that belong to no queue (`queue` is None).

    Attributes:
        published, dead_lettered: copies in, from a publish, or from a death, reroute or redrive.
        endings: copies out, by `ENDINGS`.
        refused: messages that a full queue rejected; they never became copies of the sum.
        unexplained: missing, repeated or contradictory rows.
    """

    vhost: str | None
    queue: str | None
    published: int = 0
    dead_lettered: int = 0
    ready: int = 0
    unacked: int = 0
    held: int = 0
    endings: dict[str, int] = {}
    refused: int = 0
    unexplained: int = 0

    @property
    def surplus(self) -> int:
        """Copies in minus copies accounted for; 0 if the balance closes."""
        there = self.ready + self.unacked + self.held
        return self.published + self.dead_lettered - there - sum(self.endings.values())


class VhostBalance(msgspec.Struct):
    """The messages of a vhost, and those that never became a copy.

    Attributes:
        unroutable, returned: messages that reached no queue: dropped, or returned to the publisher.
        publish_errors: messages refused with a channel error.
    """

    vhost: str | None
    messages: int = 0
    unroutable: int = 0
    returned: int = 0
    publish_errors: int = 0


class Balance(msgspec.Struct):
    """The balance of all vhosts and queues.

    Attributes:
        batch_id: the last batch in it; None if there is none yet.
        opening_batch_id: the snapshot that it starts from; None: it counts every row.
        resident: copies ready, unacked or held by the broker's own count, which does not read the
            tables; None if no batch row has it.
    """

    batch_id: int | None
    vhosts: list[VhostBalance]
    queues: list[QueueBalance]
    quarantined: int
    resident: int | None
    findings: list[Finding]
    opening_batch_id: int | None = None

    @property
    def unexplained(self) -> int:
        """The number of missing, repeated or contradictory rows."""
        return sum(finding.count for finding in self.findings)


def balance(tables: Tables, *, whole: bool = False) -> Balance:
    """Draw the balance after the last batch, or after the last whole batch before the cut.

    Args:
        whole: start at the first row that the tables have, not at the last snapshot.

    Raises:
        QueryError: the tables no longer know that batch.
    """
    if tables.cut is not None:
        tables.cut = tables.cut.whole()
        for name in ("dead_letters", "messages"):
            refuse_forgotten(tables, tables.cut, name)
    snapshot = snapshot_before(tables)
    if whole and snapshot is not None:
        snapshot = opening_snapshot(tables)
    shards, batches = load_ledger(tables, snapshot)
    sheet = _Totals(shards)
    quarantined = 0
    for row in [] if snapshot is None else totals_of(tables, snapshot):
        if row["fate"] == "quarantined":
            quarantined += row["number"]
        elif row["fate"] == "messages":
            sheet.vhost(row["vhost"]).messages += row["number"]
        else:
            sheet.add_to(row["vhost"], row["queue"], row["fate"], row["number"])
    left = count_copies(tables)
    for (shard, queue, state), copies in left.items():
        sheet.add(shard, queue, state, copies)
    for shard, queue, kind, reason, of_publish, rows in tables.values(
        """
        SELECT shard, queue, kind, reason, CASE WHEN copy_id = seq THEN parent_copy_id IS NULL END,
               count(*)
        FROM event GROUP BY ALL
        """
    ):
        if of_publish is not None:
            sheet.add(shard, queue, "published" if of_publish else "dead_lettered", rows)
        if kind != "held":  # counted above
            sheet.add(shard, queue, reason if kind == "died" else kind, rows)
    last_seq = () if snapshot is None else snapshot.last_seq
    closed = {Shard(vhost, lane): seq for vhost, lane, seq in last_seq}
    gaps, findings = find_gaps(tables, batches, shards, closed)
    evidence: list[Clue | Finding] = [
        *clues_of_gaps(tables, gaps),
        *checks.deaths(tables, shards),
        *broken_lifecycles(tables),
        *checks.targets(tables),
        *contents_against_events(tables, -1 if snapshot is None else snapshot.batch_id),
        *checks.messages(tables, shards),
    ]
    findings += explain(gaps, [one for one in evidence if isinstance(one, Clue)], shards)
    findings += [one for one in evidence if isinstance(one, Finding)]
    findings += unmentioned(checks.batches(tables, batches, sum(left.values())), findings)
    for shard, messages in tables.values("SELECT shard, count(*) FROM message GROUP BY shard"):
        sheet.vhost(shards[shard].vhost).messages += messages
    [(later,)] = tables.values("SELECT count(*) FROM quarantine")
    opening = None if snapshot is None else snapshot.batch_id
    resident = None if snapshot is None else snapshot.resident
    return Balance(
        max((row.batch_id for row in batches), default=opening),
        sheet.vhosts(),
        sheet.queues(findings),
        quarantined + later,
        batches[-1].detail.counted if batches else resident,
        findings,
        opening,
    )


class _Totals:
    def __init__(self, shards: Mapping[int, Shard]) -> None:
        self._shards = shards
        self._queues: dict[tuple[str | None, str | None], QueueBalance] = {}
        self._vhosts: dict[str | None, VhostBalance] = {}

    def vhost(self, name: str | None) -> VhostBalance:
        return self._vhosts.setdefault(name, VhostBalance(name))

    def queue(self, vhost: str | None, name: str | None) -> QueueBalance:
        return self._queues.setdefault((vhost, name), QueueBalance(vhost, name))

    def add(self, shard: int, queue: str | None, what: str | None, rows: int) -> None:
        """Count rows of a shard."""
        self.add_to(self._shards[shard].vhost, queue, what, rows)

    def add_to(self, vhost: str | None, queue: str | None, what: str | None, rows: int) -> None:
        """Count rows; kinds without a column are skipped."""
        match what:
            case "published" | "dead_lettered" | "ready" | "unacked" | "held" | "refused":
                row = self.queue(vhost, queue)
                setattr(row, what, getattr(row, what) + rows)
            case "unroutable":
                self.vhost(vhost).unroutable += rows
            case "returned":
                self.vhost(vhost).returned += rows
            case "publish_error":
                self.vhost(vhost).publish_errors += rows
            case str() if what in ENDINGS:
                endings = self.queue(vhost, queue).endings
                endings[what] = endings.get(what, 0) + rows

    def vhosts(self) -> list[VhostBalance]:
        return sorted(self._vhosts.values(), key=lambda row: row.vhost or "")

    def queues(self, findings: Iterable[Finding]) -> list[QueueBalance]:
        """The queues by vhost and name with their findings; rows of no queue come last."""
        for finding in findings:
            self.queue(finding.vhost, finding.queue).unexplained += finding.count
        return sorted(
            self._queues.values(),
            key=lambda row: (row.queue is None, row.vhost or "", row.queue or ""),
        )
