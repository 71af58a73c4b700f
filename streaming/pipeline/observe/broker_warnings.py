"""Warnings of the broker in the job's log, such as that of a missing alternate exchange.

The table `events` has every warning. The log has each distinct warning at most once per interval,
because the broker repeats warnings whenever the topology has changed, and once per lane.
"""

import json
import logging
import time
from collections.abc import Iterable
from typing import Any

from streaming.pipeline.reports import ShardReport

REPEAT_S = 600
"""A warning that is repeated is logged again after this time."""

MAX_LINES = 20
"""The most warnings that are logged per batch."""

logger = logging.getLogger(__name__)


class BrokerWarnings:
    """Logs the warnings of batches."""

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
