"""The ends of messages that nobody took. Each has one word, everywhere.

| word | what happened |
|---|---|
| lost | a dead letter that a dead-letter exchange was to take, or that was rejected without one |
| dropped | a dead letter of a queue declared without a place for it: it expired, or did not fit |
| purged | somebody emptied its queue |
| deleted | its queue was deleted, expired, or was deleted with its last consumer |

A discarded letter is none of these: a redrive removed it, and another one can restore it.
"""

from typing import Final, Literal

from streaming.queries.duckdb_tables import text

LOST: Final = (
    *("no_route", "refused", "cycle", "rerouted_before", "cascade_limit", "strategy_changed"),
)
"""Outcomes of deaths that are losses: a dead-letter exchange was to take the letter."""

LOST_WITHOUT_EXCHANGE: Final = ("rejected", "delivery_limit")
"""Reasons of deaths that are losses without a dead-letter exchange; others are how a queue without
one is meant to work: what expires, or does not fit, is dropped."""

IS_LOST: Final = (
    f"(outcome IN ({', '.join(map(text, LOST))}) OR "
    f"(outcome = 'no_exchange' AND reason IN ({', '.join(map(text, LOST_WITHOUT_EXCHANGE))})))"
)
"""The condition in SQL of a dead letter that is lost."""

IS_DROPPED: Final = f"(outcome = 'no_exchange' AND NOT {IS_LOST})"
"""The condition in SQL of a dead letter that was dropped, as its queue is declared."""


def end_of_letter(outcome: str | None, reason: str | None) -> Literal["", "lost", "dropped"]:
    """The word for a dead letter with this outcome and reason; empty: a queue took it."""
    if outcome in LOST or (outcome == "no_exchange" and reason in LOST_WITHOUT_EXCHANGE):
        return "lost"
    return "dropped" if outcome == "no_exchange" else ""
