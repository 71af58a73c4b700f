"""`[metrics]`: where a running job answers Prometheus and health checks."""

import re
from typing import Final

import attrs

from streaming.config.types import HOUR_MS, Section, matching, milliseconds, setting, whole

_PORT: Final = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]"
ADDRESS: Final = rf"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/]+):({_PORT}|6553[0-5])"
"""HOST:PORT; an IPv6 address stands in brackets."""


@attrs.frozen(kw_only=True)
class MetricsSettings(Section):
    """Metrics for Prometheus, and health checks, over HTTP."""

    listen: str | None = setting(
        None,
        "Address of the HTTP server with /metrics, /metrics/per-object, /metrics/detailed, "
        "/healthz and /readyz. It needs no password and shows the names of queues, so listen on "
        "this machine or in a private network. Not set: no server.",
        matching(ADDRESS, "HOST:PORT, with a port from 1 to 65535"),
        example='"127.0.0.1:9419"',
    )
    max_series: int = setting(
        20_000,
        "The most series of one response. Beyond it, queues are left out, and "
        "dlx_metrics_queues_left_out says how many. Totals stay complete.",
        whole(1_000, 10_000_000),
    )
    interval_ms: int = setting(
        15_000,
        "How often Kafka is asked for the ends of the topics, and the tables for their size and "
        "for unhandled dead letters. Slow answers are asked for less often: the tables take at "
        "most a tenth of the time.",
        milliseconds(1_000, HOUR_MS),
    )
    balance_interval_ms: int = setting(
        3_600_000,
        "How often the balance of all tables is drawn, for dlx_unexplained. It reads the whole "
        "ledger. 0: never.",
        milliseconds(),
    )
    stalled_after_ms: int = setting(
        300_000,
        "/healthz reports a failure if a batch runs longer than this, or if records wait this "
        "long in Kafka and no batch reads them.",
        milliseconds(10_000),
    )


def split_address(listen: str) -> tuple[str, int]:
    """Return the host and the port of an address."""
    found = re.fullmatch(ADDRESS, listen)
    assert found is not None, "the setting was checked"
    return found[1].strip("[]"), int(found[2])
