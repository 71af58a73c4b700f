"""The end of what a query sees of the ledger: everything, or what had happened by an instant.

A cut is made of whole batches and, for a time or a record, of the first events of the batches that
follow. Each condition is on a table's own columns, so one cut serves every query of those tables.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, NamedTuple

_EVENT_TABLES: Final = frozenset({"events", "dead_letters"})
_RECORD_TABLES: Final = frozenset({"messages", "quarantine"})


class Cut(NamedTuple):
    """Which rows a query sees.

    Attributes:
        batch_id: the last batch of which it sees all rows; -1: none.
        at: the instant up to which it sees the events of later batches; None: it sees none.
        last_seq: shards that end at an event instead: (vhost, lane) -> its seq.
    """

    batch_id: int
    at: datetime | None = None
    last_seq: Mapping[tuple[str, int], int] = MappingProxyType({})

    def whole(self) -> "Cut":
        """The same without batches that are cut in two."""
        return Cut(self.batch_id)

    def is_before(self, other: "Cut") -> bool:
        """Whether it ends where another one does, or earlier, as far as both tell."""
        if self.at is not None and other.at is not None:
            return self.at <= other.at
        return self.batch_id <= other.batch_id

    def condition(self, table: str) -> str | None:
        """The condition on the rows of a table, in SQL; None: the table has no history."""
        if table in _EVENT_TABLES:
            kind = "kind <> 'batch' AND " if table == "events" else ""
            later = "" if self.at is None else f" OR ({kind}{self._later()})"
            return f"(batch_id <= {self.batch_id}{later})"
        if table in _RECORD_TABLES:
            return "true" if self.at is not None else f"batch_id <= {self.batch_id}"
        return None

    def columns(self, table: str) -> set[str]:
        """The columns that the condition reads."""
        if table not in _EVENT_TABLES | _RECORD_TABLES:
            return set()
        if table in _RECORD_TABLES or self.at is None:
            return {"batch_id"}
        shard = {"vhost", "lane", "seq"} if self.last_seq else set()
        return {"batch_id", "at", *shard, *({"kind"} if table == "events" else ())}

    def may_see(self, table: str, least_batch: int | None, least_at: datetime | None) -> bool:
        """Whether a file may have rows that it sees, by the least values of its columns."""
        if table not in _EVENT_TABLES | _RECORD_TABLES or least_batch is None:
            return True
        if least_batch <= self.batch_id:
            return True
        if self.at is None:
            return False
        if table in _RECORD_TABLES or least_at is None:
            return True
        return least_at <= self.at

    def _later(self) -> str:
        assert self.at is not None, "only a cut at an instant sees parts of batches"
        moment = f"CAST('{self.at.astimezone(UTC).isoformat()}' AS TIMESTAMPTZ)"
        condition = f'"at" <= {moment}'
        if not self.last_seq:
            return condition
        cases = " ".join(
            f"WHEN vhost = {_text(vhost)} AND lane = {lane} THEN seq <= {seq}"
            for (vhost, lane), seq in sorted(self.last_seq.items())
        )
        return f"CASE {cases} ELSE {condition} END"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
