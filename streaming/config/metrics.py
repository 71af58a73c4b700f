"""`[metrics]`: where a running job answers Prometheus and health checks."""

import re
from typing import Final

import attrs

from streaming.config.types import (
    HOUR_MS,
    Section,
    matching,
    milliseconds,
    setting,
    strings,
    whole,
)

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
    hosts: tuple[str, ...] = setting(
        (),
        "More names that requests may use for the address. Known are addresses in numbers, the "
        "names of this machine, and names that no public DNS can have: without a dot, or ending "
        "in .internal, .local or .svc. Others are refused, so that no web page can read the "
        "metrics through a name of its own.",
        strings(r"[A-Za-z0-9.-]{1,253}", "the name of a host, without a port"),
    )
    quiet_queues: tuple[str, ...] = setting(
        (),
        "Queues whose deaths are part of a design, such as retries by reject: the shipped alerts "
        "about queues leave them out, and so does the verdict of the console. `*` stands for any "
        "characters. alerts.quiet leaves queues out of one alert.",
        strings(r".{1,255}", "the name of a queue, or a pattern with *"),
    )
    max_series: int = setting(
        20_000,
        "The most series of one response. Beyond it, queues are left out, then single causes of "
        "death, which are added up instead. dlx_metrics_queues_left_out and "
        "dlx_metrics_series_left_out say how many. Totals stay complete.",
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
