"""Warnings of a batch in the job's log: the broker's own, and of records that it could not use.

The tables `events` and `quarantine` have all of them; the log has few lines for what lasts.
"""

import json
import logging
import time
from collections.abc import Iterable
from typing import Any

from streaming.pipeline.reports import OTHER_CAUSES, FaultCount, FaultKind, ShardReport

REPEAT_S = 600
"""A warning that is repeated is logged again after this time; a fault with the number since."""

MAX_LINES = 20
"""The most warnings, and the most faults, that are logged per batch."""

logger = logging.getLogger(__name__)

MAX_EXAMPLE = 300
"""The most characters of an example; the table has everything."""


_Key = tuple[FaultKind, str, str]


class BrokerWarnings:
    """Logs the broker's warnings, such as that of a missing alternate exchange.

    Each distinct warning is logged at most once per interval, because the broker repeats warnings
    whenever the topology has changed, and once per lane.
    """

    def __init__(self) -> None:
        self._logged_s: dict[str, float] = {}

    def log(self, reports: Iterable[ShardReport]) -> None:
        """Log the warnings of a batch that were not logged recently."""
        now_s = time.monotonic()
        self._logged_s = {
            line: at_s for line, at_s in self._logged_s.items() if now_s - at_s < REPEAT_S
        }
        lines = dict.fromkeys(
            warning_line(report.vhost, detail) for report in reports for detail in report.warnings
        )
        new = [line for line in lines if line not in self._logged_s]
        for line in new[:MAX_LINES]:
            logger.warning("%s", line)
        if len(new) > MAX_LINES:
            logger.warning(
                "%d more warnings of this batch are in the table events (kind warning)",
                len(new) - MAX_LINES,
            )
        self._logged_s |= dict.fromkeys(new, now_s)


def warning_line(vhost: str, detail: dict[str, Any]) -> str:
    """Return a WARNING event's detail as a line of the log."""
    match detail:
        case {"missing_alternate_exchange": missing, "exchange": name, **rest}:
            kind = "exchange"
        case {"missing_alternate_exchange": missing, "queue": name, **rest}:
            kind = "queue"
        case _:
            return f"vhost {vhost!r}: {json.dumps(detail, ensure_ascii=False, default=str)}"
    more = f" {json.dumps(rest, ensure_ascii=False, default=str)}" if rest else ""
    return (
        f"vhost {vhost!r}: alternate exchange {missing!r} of {kind} {name!r} does not exist{more}"
    )


class FaultWarnings:
    """Logs records that go to quarantine, and publishes that no queue takes.

    The first batch with such a fault is logged at once, with its place, cause, number and example.
    While it lasts, the log has one line per interval with the number since the last one.
    """

    def __init__(self) -> None:
        self._logged_s: dict[_Key, float] = {}
        self._pending: dict[_Key, FaultCount] = {}

    def log(self, faults: Iterable[FaultCount]) -> None:
        """Count the faults of a batch, and log those that are due."""
        for fault in faults:
            key = (fault.kind, fault.place, fault.cause)
            before = self._pending.get(key)
            count = fault.count + (0 if before is None else before.count)
            example = fault.example if before is None else before.example
            self._pending[key] = FaultCount(*key, count, example)
        now_s = time.monotonic()
        self._log_due(now_s)
        self._logged_s = {
            key: at_s
            for key, at_s in self._logged_s.items()
            if key in self._pending or now_s - at_s < REPEAT_S
        }

    def log_rest(self) -> None:
        """Log what was counted since the last lines; the job stops."""
        self._log_due(float("inf"))

    def _log_due(self, now_s: float) -> None:
        due = [
            fault
            for key, fault in self._pending.items()
            if key not in self._logged_s or now_s - self._logged_s[key] >= REPEAT_S
        ]
        for fault in due[:MAX_LINES]:
            key = (fault.kind, fault.place, fault.cause)
            logger.warning("%s", fault_line(fault, is_more=key in self._logged_s))
        if len(due) > MAX_LINES:
            rest = due[MAX_LINES:]
            logger.warning(
                "%d more faults with %d other causes are in the tables quarantine and events",
                sum(fault.count for fault in rest),
                len(rest),
            )
        for fault in due:
            key = (fault.kind, fault.place, fault.cause)
            del self._pending[key]
            self._logged_s[key] = now_s


def fault_line(fault: FaultCount, *, is_more: bool = False) -> str:
    """Return a fault as a line of the log.

    Args:
        is_more: the fault was logged before, and this is the number since.
    """
    number = f"{fault.count:,} more" if is_more else f"{fault.count:,}"
    one = fault.count == 1
    records, publishes = ("record", "publish") if one else ("records", "publishes")
    was = "was" if one else "were"
    example = " ".join(fault.example.split())
    if len(example) > MAX_EXAMPLE:
        example = f"{example[:MAX_EXAMPLE]} ..."
    cause = fault.cause
    to = f"to {_exchange(cause)} in vhost {fault.place!r}"
    match fault.kind:
        case "quarantined":
            return (
                f"{number} {records} of topic {fault.place} {was} quarantined ({cause}). First: "
                f"{example}. Look at them with `dlx quarantine list`, or in the table quarantine"
            )
        case "unroutable":
            return (
                f"{number} {publishes} {to} reached no queue and {was} dropped. First: {example}. "
                "They are in the table events (kind unroutable); bind a queue, set an alternate "
                "exchange, or publish with mandatory"
            )
        case "returned":
            return (
                f"{number} {publishes} {to} reached no queue and {was} returned to the publisher. "
                f"First: {example}. They are in the table events (kind returned)"
            )
        case _:
            return (
                f"{number} {publishes} in vhost {fault.place!r} {was} refused: {cause}. First: "
                f"{example}. They are in the table events (kind publish_error)"
            )


def _exchange(name: str) -> str:
    if name == OTHER_CAUSES:
        return "other exchanges"
    return f"exchange {name!r}" if name else "the default exchange"
