"""`[alerts]`: which queues single alerts leave out."""

from typing import Any, Final

import attrs

from streaming.config.types import (
    Kind,
    Section,
    invalid,
    kind_of,
    setting,
    strings,
)
from topology.suggestions import did_you_mean

ABOUT_QUEUES: Final = (
    *("DlxMessagesDie", "DlxDeathBurst", "DlxDeadLettersLost", "DlxNewCause"),
    *("DlxDeadLettersUnhandled", "DlxNoConsumer", "DlxBacklogGrowing", "DlxNearMaxLength"),
)
"""The alerts that are about one queue, and can leave queues out. DlxNearRetention cannot:
it warns of a loss."""

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
    """Which queues single alerts leave out."""

    quiet: dict[str, tuple[str, ...]] = setting(
        {},
        "Queues that one alert leaves out, by its name, such as a queue that is consumed once a "
        "night. `*` stands for any characters. metrics.quiet_queues leaves queues out of all.",
        exceptions(),
    )
