"""`--since`: a time ago, or an instant."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import typer

_AGO: Final = re.compile(r"(?P<count>[0-9]{1,9})(?P<unit>[smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_since(text: str, now: datetime) -> datetime:
    """The instant that `15m` (ago) or `2026-03-01T12:00:00Z` means. Without an offset it is UTC.

    Raises:
        typer.BadParameter: it is neither.
    """
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago["unit"]]: int(ago["count"])})
        instant = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is neither a time ago (30s, 15m, 2h, 7d) nor an instant "
            "(2026-03-01T12:00:00Z)",
            param_hint="--since",
        ) from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
