"""`[alerts]`: which queues single alerts leave out, and whom the job itself tells."""

from collections.abc import Iterator
from typing import Any, Final

import attrs

from streaming.config.types import (
    Kind,
    Section,
    invalid,
    kind_of,
    local,
    matching,
    setting,
    strings,
)
from topology.errors import Problem
from topology.suggestions import did_you_mean

ABOUT_QUEUES: Final = (
    *("DlxMessagesDie", "DlxDeathBurst", "DlxDeadLettersLost", "DlxNewCause"),
    *("DlxDeadLettersUnhandled", "DlxNoConsumer", "DlxBacklogGrowing", "DlxNearMaxLength"),
)
"""The alerts that are about one queue, and can leave queues out. DlxNearRetention cannot:
it warns of a loss."""

_URL: Final = r"https?://[^\s/?#@:]+(:[0-9]{1,5})?([/?][^\s#]*)?"
_NAMES: Final = strings(r".{1,255}", "the name of a queue, or a pattern with *")


def exceptions() -> Kind:
    """A table: alert -> names of queues."""

    def read(raw: Any) -> dict[str, tuple[str, ...]]:
        if not isinstance(raw, dict):
            raise invalid(f"expected a table, got {kind_of(raw)}")
        for name in raw:
            if name not in ABOUT_QUEUES:
                hint = did_you_mean(str(name), ABOUT_QUEUES)
                raise invalid(f"{name!r} is no alert about queues{hint}")
        return {name: _NAMES.read(names) for name, names in raw.items()}

    bounds = f"{', '.join(ABOUT_QUEUES)}, each with an array of names of queues"
    return Kind("a table", read, bounds, "properties")


@attrs.frozen(kw_only=True)
class AlertSettings(Section):
    """Which queues single alerts leave out, and a webhook that the job itself calls."""

    quiet: dict[str, tuple[str, ...]] = setting(
        {},
        "Queues that one alert leaves out, by its name, such as a queue that is consumed once a "
        "night. `*` stands for any characters. metrics.quiet_queues leaves queues out of all.",
        exceptions(),
    )
    webhook: str | None = setting(
        None,
        "Address that the job itself posts a JSON document to when an alert begins and when it "
        "ends, without Prometheus. Not set: the job tells nobody.",
        matching(_URL, "http:// or https:// and a host"),
        example='"https://hooks.example.com/dlx"',
    )
    webhook_secret: str | None = setting(
        None,
        "File with a secret of 16 bytes or more. The header X-Dlx-Signature then has the "
        "HMAC-SHA256 of the timestamp, a dot and the body.",
        local("file"),
        example='"webhook.secret"',
    )

    def contradictions(self) -> Iterator[Problem]:
        """A secret signs what is sent."""
        if self.webhook_secret is not None and self.webhook is None:
            yield Problem("webhook_secret", "needs webhook, whose messages it signs")
