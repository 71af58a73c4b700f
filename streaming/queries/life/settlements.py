"""Which copies were settled together: all that left a consumer without another event in between.

    died m1, died m2, enqueued m1, enqueued m2    by one nack with `multiple`, or a closed channel
    died m1, enqueued m1, died m2, enqueued m2    by one after the other

So they are delivered on one channel, and settled with `multiple`.
"""

from streaming.queries.duckdb_tables import Row


class Settlements:
    """The settlements among the events of a stretch, in order of seq."""

    def __init__(self, events: list[Row]) -> None:
        self._copies: dict[int, list[int]] = {}  # seq of the first event -> the copies
        first = -1
        previous: tuple[str, int] | None = None
        settled: dict[int, list[tuple[int, int]]] = {}  # copy -> seq, seq of the first event
        for event in events:
            how = how_settled(event)
            mark = None if how is None else (how, event["at_ms"])
            if mark is not None:
                if mark != previous:
                    first = event["seq"]
                self._copies.setdefault(first, []).append(event["copy_id"])
                settled.setdefault(event["copy_id"], []).append((event["seq"], first))
            previous = mark
        self._settled = settled

    def channel(self, copy_id: int, seq: int) -> str:
        """The channel of a delivery; `seq`: of its event."""
        for settled, first in self._settled.get(copy_id, ()):
            if settled > seq:
                return f"s{first}"
        return f"c{copy_id}"

    def copies(self, seq: int) -> list[int]:
        """The copies whose settlement begins with this event."""
        return self._copies.get(seq, [])


def how_settled(event: Row) -> str | None:
    """How an unacked copy was settled; None if it was not."""
    match event["kind"], event["reason"]:
        case "acked", _:
            return "ack"
        case ("requeued", _) | ("died" | "held", "delivery_limit"):
            return "requeue"
        case "died" | "held" | "rerouted", "rejected":
            return "reject"
        case _:
            return None
